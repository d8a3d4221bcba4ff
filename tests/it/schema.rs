//! What payloads look like, for forms and clients: their JSON Schemas, and templates where a type tells none.

use jobq::{JobEntry, JobSet, Registry, prelude::*};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};

#[derive(Serialize, Deserialize, JsonSchema)]
struct Money {
    /// In cents.
    amount: i64,
    currency: String,
}

/// Tells no schema.
#[derive(Serialize, Deserialize)]
struct Opaque(u8);

/// Sends a bill.
///
/// By mail.
#[job(type = "schema-test:bill", serde(rename_all = "camelCase"))]
async fn send_bill(
    ctx: &JobContext,
    #[data] sender: &String,
    /// Who pays.
    user_id: u32,
    price: Money,
    /// The rebate.
    rebate: Option<Money>,
    #[serde(default, rename = "cc")] copies: Vec<(String, bool)>,
    #[secret] card_number: String,
    opaque: Opaque,
    opaques: Vec<Opaque>,
    #[serde(skip)] cache: HashMap<String, u8>,
    due: chrono::DateTime<chrono::Utc>,
    id: uuid::Uuid,
) -> Result<(), JobError> {
    let _ = (ctx, sender, user_id, price, rebate, copies, card_number, opaque, opaques, cache, due, id);
    Ok(())
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Place {
    street: String,
    number: Option<u8>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
enum How {
    Now { fast: bool },
    Later(u8),
}

#[job(type = "schema-test:flat")]
async fn flat(
    name: String,
    #[serde(flatten)] place: Place,
    #[serde(flatten)] how: How,
    #[serde(flatten)] perhaps: Option<Money>,
    #[serde(flatten)] rest: BTreeMap<String, u8>,
) {
    let _ = (name, place, how, perhaps, rest);
}

mod hex {
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(number: &u8, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&format!("{number:x}"))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u8, D::Error> {
        u8::from_str_radix(&String::deserialize(from)?, 16).map_err(serde::de::Error::custom)
    }
}

#[job(type = "schema-test:closed", serde(deny_unknown_fields))]
async fn closed(#[serde(with = "hex")] number: u8, anything: Value) {
    let _ = (number, anything);
}

#[job(type = "schema-test:whole", serde(transparent))]
async fn whole(money: Money) {
    let _ = money;
}

#[derive(Serialize, Deserialize)]
struct Wire(u8);

impl From<Wire> for OverTheWire {
    fn from(Wire(number): Wire) -> Self {
        Self { number }
    }
}

#[job(type = "schema-test:wire", serde(from = "Wire"))]
async fn over_the_wire(number: u8) {
    let _ = number;
}

#[job(type = "schema-test:none")]
async fn nothing() {}

fn entry(job_type: &str) -> &'static JobEntry {
    Registry::linked().unwrap().get(job_type).unwrap()
}

fn schema(job_type: &str) -> Value {
    entry(job_type).schema().unwrap()
}

#[test]
fn a_schema_says_what_each_field_is_where_its_type_tells() {
    let money = json!({
        "type": "object",
        "required": ["amount", "currency"],
        "properties": {
            "amount": { "type": "integer", "format": "int64", "description": "In cents." },
            "currency": { "type": "string" },
        },
    });
    let expected = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "schema-test:bill",
        "description": "Sends a bill.\n\nBy mail.",
        "type": "object",
        "properties": {
            "userId": {
                "type": "integer", "format": "uint32", "minimum": 0, "description": "Who pays.",
            },
            "price": { "$ref": "#/$defs/Money" },
            "rebate": {
                "anyOf": [{ "$ref": "#/$defs/Money" }, { "type": "null" }], "description": "The rebate.",
            },
            "cc": {
                "type": "array",
                "items": {
                    "type": "array", "prefixItems": [{ "type": "string" }, { "type": "boolean" }],
                    "minItems": 2, "maxItems": 2,
                },
            },
            "cardNumber": { "type": "string", "writeOnly": true },
            "opaque": { "$comment": "a `Opaque`" },
            "opaques": { "$comment": "a `Vec<Opaque>`" },
            "due": { "type": "string", "format": "date-time" },
            "id": { "type": "string", "format": "uuid" },
        },
        "required": ["userId", "price", "cardNumber", "opaque", "opaques", "due", "id"],
        "$defs": { "Money": money },
    });
    assert_eq!(schema("schema-test:bill"), expected);
}

#[test]
fn flattened_fields_stand_among_the_others() {
    let flat = schema("schema-test:flat");
    let names: Vec<_> = flat["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["name", "number", "street"]);
    assert_eq!(flat["required"], json!(["name", "street"]));
    assert_eq!(flat["additionalProperties"]["format"], "uint8", "what a map takes in");
    let variants = flat["allOf"][0]["oneOf"].as_array().unwrap();
    assert_eq!((variants.len(), flat["allOf"].as_array().unwrap().len()), (2, 1));
    assert!(variants.iter().all(|variant| variant.get("additionalProperties").is_none()), "{flat:#}");
}

#[test]
fn what_serde_reads_in_another_way_is_not_told_by_the_type() {
    let closed = schema("schema-test:closed");
    assert_eq!(closed["properties"], json!({ "number": { "$comment": "a `u8 with hex`" }, "anything": {} }));
    assert_eq!(closed["additionalProperties"], false);

    let whole = schema("schema-test:whole");
    assert_eq!((&whole["$ref"], &whole["title"]), (&json!("#/$defs/Money"), &json!("schema-test:whole")));
    assert!(whole["$defs"]["Money"].is_object() && whole.get("properties").is_none(), "{whole:#}");

    assert_eq!(entry("schema-test:wire").schema(), None);
    assert_eq!(schema("schema-test:none")["properties"], json!({}));
}

#[test]
fn a_template_has_a_line_a_field_in_their_order() {
    let expected = r#"{
  "userId": 0,
  "price": "<Money>",
  "rebate": null,
  "cc": [],
  "cardNumber": {"$secret": ""},
  "opaque": "<Opaque>",
  "opaques": [],
  "due": "1970-01-01T00:00:00Z",
  "id": "00000000-0000-0000-0000-000000000000"
}"#;
    assert_eq!(entry("schema-test:bill").template(), expected);
    let flat = "{\n  \"name\": \"\",\n  \"..\": \"<Place>\",\n  \"..\": \"<How>\"\n}";
    assert_eq!(entry("schema-test:flat").template(), flat);
    assert_eq!(entry("schema-test:whole").template(), "\"<Money>\"");
    assert_eq!(entry("schema-test:wire").template(), "\"<from Wire>\"");
    assert_eq!(entry("schema-test:none").template(), "{}");
}

/// Of all jobs of these tests, whatever their payloads are.
#[test]
fn a_template_without_gaps_is_a_payload_and_each_schema_names_what_is_required() {
    let mut taken = 0;
    for entry in Registry::linked().unwrap().iter() {
        let template = entry.template();
        let value: Value = serde_json::from_str(&template).unwrap_or_else(|error| panic!("{entry}: {error}"));
        if !template.contains("\"<") {
            (entry.check)(&template).unwrap_or_else(|error| panic!("{entry}: {error}\n{template}"));
            taken += 1;
        }
        let Some(schema) = entry.schema() else { continue };
        for name in schema["required"].as_array().into_iter().flatten() {
            assert!(schema["properties"].get(name.as_str().unwrap()).is_some(), "{entry}: {schema:#}");
        }
        if entry.shape.is_empty() && !entry.fields.iter().any(|field| field.flatten) {
            let required = entry.fields.iter().filter(|field| !field.optional).map(|field| field.name);
            let told = schema["required"].as_array().cloned().unwrap_or_default();
            assert_eq!(told, required.map(Value::from).collect::<Vec<_>>(), "{entry}");
            assert_eq!(value.as_object().unwrap().len(), entry.fields.len(), "{entry}: {template}");
        }
    }
    assert!(taken > 100, "{taken} templates without gaps");
}

#[test]
fn what_each_field_is_stands_beside_its_schema() {
    let bill = entry("schema-test:bill");
    let card = bill.fields.iter().find(|field| field.name == "cardNumber").unwrap();
    assert!(card.secret && card.ty == "String" && card.doc.is_empty(), "{card:?}");
    assert_eq!((bill.fields[0].doc, bill.doc), ("Who pays.", "Sends a bill.\n\nBy mail."));
    assert_eq!((send_bill, flat, closed).job_types().len(), 3);
}
