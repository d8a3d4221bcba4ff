//! What a payload looks like, for forms and clients: a template of it, and with the feature `schema` its JSON Schema.

use super::{Field, JobEntry};
#[cfg(feature = "schema")]
use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings};
use serde_json::Value;
#[cfg(feature = "schema")]
use serde_json::{Map, json};

/// How the JSON Schema of a type is made, where it tells one and the feature `schema` is on.
#[derive(Clone, Copy, Debug)]
pub struct TypeSchema(#[cfg(feature = "schema")] Option<MakeSchema>);

/// Makes a schema; the flag asks for the schema itself, rather than a reference to it.
#[cfg(feature = "schema")]
type MakeSchema = fn(&mut SchemaGenerator, bool) -> Schema;

#[cfg(not(feature = "schema"))]
impl TypeSchema {
    /// No schema.
    pub const NONE: Self = Self();
}

#[cfg(feature = "schema")]
impl TypeSchema {
    /// No schema.
    pub const NONE: Self = Self(None);

    /// The schema of a `T`.
    pub const fn of<T: JsonSchema>() -> Self {
        Self(Some(|generator, itself| match itself {
            true => T::json_schema(generator),
            false => generator.subschema_for::<T>(),
        }))
    }
}

impl JobEntry {
    /// A payload to begin with, as JSON text, one line a field in the order of the parameters: zero or empty by each
    /// type, `null` for an `Option`, a secret as rows hold it, `{"$secret": …}`, and `"<Money>"` where only people know
    /// what to write.
    pub fn template(&self) -> String {
        if let Some(whole) = self.whole() {
            return whole.map_or_else(|| format!("\"<{}>\"", self.shape), |field| field.template.to_owned());
        }
        let lines: Vec<_> = self.fields.iter().filter_map(Field::template_line).collect();
        match lines.is_empty() {
            true => "{}".into(),
            false => format!("{{\n{}\n}}", lines.join(",\n")),
        }
    }

    /// `None`: the payload is an object of the fields. Else the field that stands for all of it, if there is one.
    fn whole(&self) -> Option<Option<&Field>> {
        match self.shape {
            "" => None,
            "transparent" => Some(self.fields.first()),
            // Read as an object of the fields all the same.
            tag if tag.starts_with("tag ") && !tag.contains(", ") => None,
            _ => Some(None),
        }
    }
}

impl Field {
    /// `None`: it may stand for no field at all.
    fn template_line(&self) -> Option<String> {
        let (name, value) = (Value::from(self.name), self.template);
        match (self.flatten, self.secret) {
            (true, _) if value.starts_with('{') || value == "null" => None,
            (true, _) => Some(format!("  \"..\": {value}")),
            (false, true) => Some(format!("  {name}: {{\"$secret\": {value}}}")),
            (false, false) => Some(format!("  {name}: {value}")),
        }
    }
}

#[cfg(feature = "schema")]
impl JobEntry {
    /// The JSON Schema (draft 2020-12) of the payloads that this build takes, with docs as descriptions, and secrets
    /// `writeOnly`. A field whose type tells no schema may be anything in it.
    ///
    /// `None`: serde reads the payload as something else than its fields, as with `serde(from = "…")`; there is the
    /// [`template`](Self::template).
    pub fn schema(&self) -> Option<Value> {
        let mut generator = SchemaSettings::draft2020_12().into_generator();
        let mut schema = match self.whole() {
            None => self.object(&mut generator),
            Some(whole) => whole?.schema_of(&mut generator).ensure_object().clone(),
        };
        schema.insert("$schema".into(), json!("https://json-schema.org/draft/2020-12/schema"));
        schema.insert("title".into(), json!(self.job_type));
        if !self.doc.is_empty() {
            schema.insert("description".into(), json!(self.doc));
        }
        let definitions = generator.take_definitions(true);
        if !definitions.is_empty() {
            schema.insert("$defs".into(), Value::Object(definitions));
        }
        Some(Value::Object(schema))
    }

    fn object(&self, generator: &mut SchemaGenerator) -> Map<String, Value> {
        let mut object = Object::default();
        for field in self.fields {
            let mut schema = field.schema_of(generator);
            match field.flatten {
                true => object.take_in(schema.ensure_object(), field.optional),
                false => {
                    object.properties.insert(field.name.into(), schema.to_value());
                    object.required.extend((!field.optional).then(|| json!(field.name)));
                }
            }
        }
        object.into_schema(self.denies_unknown_fields())
    }

    fn denies_unknown_fields(&self) -> bool {
        self.written.iter().any(|(word, value)| *word == "serde" && value.contains("deny_unknown_fields"))
    }
}

#[cfg(feature = "schema")]
impl Field {
    fn schema_of(&self, generator: &mut SchemaGenerator) -> Schema {
        let mut schema = match self.schema.0 {
            Some(make) => make(generator, self.flatten),
            None => Schema::from(Map::from_iter([("$comment".into(), json!(format!("a `{}`", self.ty)))])),
        };
        let object = schema.ensure_object();
        if !self.doc.is_empty() {
            object.insert("description".into(), json!(self.doc));
        }
        if self.secret {
            object.insert("writeOnly".into(), json!(true));
        }
        schema
    }
}

/// The schema of an object, as it grows.
#[cfg(feature = "schema")]
#[derive(Default)]
struct Object {
    properties: Map<String, Value>,
    required: Vec<Value>,
    /// What fields of other names are.
    others: Option<Value>,
    /// What the whole has to be besides.
    all_of: Vec<Value>,
}

#[cfg(feature = "schema")]
impl Object {
    /// Takes in a field whose own fields stand in its place.
    fn take_in(&mut self, field: &mut Map<String, Value>, optional: bool) {
        for word in ["title", "description", "type", "$comment"] {
            field.remove(word);
        }
        // An `Option` of it: all of its fields, or none.
        let may_lack = optional || field.contains_key("anyOf");
        if let Some(Value::Object(properties)) = field.remove("properties") {
            self.properties.extend(properties);
        }
        match field.remove("required") {
            Some(Value::Array(required)) if !may_lack => self.required.extend(required),
            _ => {}
        }
        self.others =
            field.remove("additionalProperties").filter(|others| !others.is_boolean()).or(self.others.take());
        // Each variant of an enum is closed; beside the other fields it is not.
        if let Some(Value::Array(variants)) = field.get_mut("oneOf") {
            variants.iter_mut().filter_map(Value::as_object_mut).for_each(|variant| {
                variant.remove("additionalProperties");
            });
        }
        if !field.is_empty() && !may_lack {
            self.all_of.push(Value::Object(std::mem::take(field)));
        }
    }

    fn into_schema(self, closed: bool) -> Map<String, Value> {
        let mut schema = Map::from_iter([("type".into(), json!("object"))]);
        schema.insert("properties".into(), Value::Object(self.properties));
        if !self.required.is_empty() {
            schema.insert("required".into(), Value::Array(self.required));
        }
        if !self.all_of.is_empty() {
            schema.insert("allOf".into(), Value::Array(self.all_of));
        }
        let others = self.others.or_else(|| closed.then_some(Value::Bool(false)));
        schema.extend(others.map(|others| ("additionalProperties".into(), others)));
        schema
    }
}
