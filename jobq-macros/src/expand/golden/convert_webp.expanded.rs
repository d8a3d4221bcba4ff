#[cfg(feature = "images")]
const _: fn() = || {
    ::jobq::private::stores::<u64>();
};
#[cfg(feature = "images")]
/// What a job `convert_webp` is enqueued with.
#[derive(::jobq::private::Serialize, ::jobq::private::Deserialize)]
#[serde(crate = "::jobq::private::serde")]
struct ConvertWebp {
    /// The parameter `media_id`.
    media_id: u64,
}
#[cfg(feature = "images")]
impl ::jobq::private::Debug for ConvertWebp {
    fn fmt(
        &self,
        f: &mut ::jobq::private::Formatter<'_>,
    ) -> ::jobq::private::fmt::Result {
        ::jobq::private::debug(self, "ConvertWebp", f)
    }
}
#[cfg(feature = "images")]
impl ::jobq::private::Job for ConvertWebp {
    const TYPE: &'static str = "convert_webp";
    const DEFAULTS: ::jobq::private::Defaults = ::jobq::private::Defaults::NONE;
    type Args = u64;
    type Return = Result<(), String>;
    fn from_args(media_id: Self::Args) -> Self {
        Self { media_id }
    }
}
#[cfg(feature = "images")]
fn convert_webp(media_id: u64) -> ::jobq::private::Call<'static, ConvertWebp> {
    fn __convert_webp(media_id: u64) -> Result<(), String> {
        webp::convert(media_id)
    }
    ::jobq::private::Call::new(
        ::jobq::private::Box::pin(async move { __convert_webp(media_id) }),
    )
}
#[cfg(feature = "images")]
impl ::jobq::private::CallJob for ConvertWebp {
    fn call<'a>(
        self,
        _: &'a ::jobq::private::JobContext,
        _: &'a ::jobq::private::DataMap,
    ) -> ::jobq::private::Result<
        ::jobq::private::Call<'a, Self>,
        ::jobq::private::JobError,
    > {
        ::jobq::private::Ok(convert_webp(self.media_id))
    }
}
#[cfg(feature = "images")]
const _: () = {
    ::jobq::private::inventory::submit!(::jobq::private::JobEntry {
        job_type: "convert_webp",
        aliases: &[],
        defaults: <ConvertWebp as ::jobq::private::Job>::DEFAULTS,
        backoff: ::jobq::private::BackoffPolicy::Unset,
        blocking: true,
        on_dead: ::jobq::private::None,
        data: &[],
        on: &[
            ::jobq::private::subscription::<
                MediaUploaded,
            >(|given| ::jobq::private::follow::<
                MediaUploaded,
            >(
                given,
                |heard| ::jobq::private::followed::<MediaUploaded, ConvertWebp>(heard),
            )),
            ::jobq::private::subscription::<
                PostChanged,
            >(|given| ::jobq::private::follow::<
                PostChanged,
            >(
                given,
                |heard| ::jobq::private::payloads::<ConvertWebp, _>(its_pictures(heard)),
            )),
        ],
        cron: ::jobq::private::Option::None,
        secrets: <ConvertWebp as ::jobq::private::Job>::SECRETS,
        upgrade: ::jobq::private::None,
        check: ::jobq::private::check::<ConvertWebp>,
        run: |text, ctx, lent| {
            let job = ::jobq::private::decode::<ConvertWebp>(text)?;
            ::jobq::private::Ok(
                ::jobq::private::Box::pin(async move {
                    ::jobq::private::stored::<
                        Result<(), String>,
                    >(::jobq::private::CallJob::call(job, ctx, lent)?.await)
                }),
            )
        },
        fields: &[
            ::jobq::private::Field {
                name: "media_id",
                aliases: &[],
                ty: "u64",
                optional: false,
                flatten: false,
                secret: false,
                doc: "",
                template: "0",
                schema: ::jobq::private::type_schema!(u64),
            },
        ],
        shape: "",
        written: &[
            ("blocking", ""),
            ("on", "MediaUploaded"),
            ("on", "(PostChanged, with = its_pictures)"),
        ],
        doc: "",
        function: "convert_webp",
        module: ::jobq::private::module_path!(),
        file: ::jobq::private::file!(),
        line: ::jobq::private::line!(),
    });
};
