use jobq::prelude::*;

mod hex {
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(text: &str, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(text)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
        String::deserialize(from)
    }
}

#[job]
async fn log_in(
    #[secret]
    #[serde(with = "hex")]
    token: String,
) {
    let _ = token;
}

fn main() {}
