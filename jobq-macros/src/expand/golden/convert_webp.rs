#[job(blocking, on = MediaUploaded, on(PostChanged, with = its_pictures))]
#[cfg(feature = "images")]
fn convert_webp(media_id: u64) -> Result<(), String> {
    webp::convert(media_id)
}
