//! JSON objects for Plotly, which keep their attributes in the order in which they are set: equal charts yield equal
//! bytes.

use serde::Serialize;

/// A JSON object. Its attributes are those of Plotly's reference, <https://plotly.com/javascript/reference>.
#[derive(Debug, Default)]
pub(crate) struct Object {
    /// The JSON but for the closing brace; empty without attributes.
    json: String,
}

impl Object {
    /// An object without attributes.
    pub(crate) fn new() -> Object {
        Object::default()
    }

    /// Sets an attribute, once. NaN is `null`, which Plotly leaves out.
    pub(crate) fn set(self, key: &str, value: impl Serialize) -> Object {
        let value = serde_json::to_string(&value).expect("numbers, texts and lists are JSON");
        self.attribute(key, &value)
    }

    /// Sets an attribute to an object.
    pub(crate) fn object(self, key: &str, value: Object) -> Object {
        self.attribute(key, &value.into_json())
    }

    /// Sets an attribute to a list of objects.
    pub(crate) fn objects(self, key: &str, values: Vec<Object>) -> Object {
        let values: Vec<String> = values.into_iter().map(Object::into_json).collect();
        self.attribute(key, &format!("[{}]", values.join(",")))
    }

    /// The object as JSON.
    pub(crate) fn into_json(mut self) -> String {
        if self.json.is_empty() {
            self.json.push('{');
        }
        self.json.push('}');
        self.json
    }

    /// `key` needs no escaping.
    fn attribute(mut self, key: &str, json: &str) -> Object {
        self.json.push(if self.json.is_empty() { '{' } else { ',' });
        self.json.extend(["\"", key, "\":", json]);
        self
    }
}

/// The title of an axis or of a scale of colours.
pub(crate) fn titled(text: &str) -> Object {
    Object::new().set("text", escaped(text))
}

/// Escapes the few HTML elements that Plotly interprets in texts, and keeps line breaks.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('\n', "<br>")
}

#[cfg(test)]
mod tests {
    use super::*;

    // A missing comma or brace leaves the whole page without charts.
    #[test]
    fn attributes_stay_in_their_order() {
        let inner = || Object::new().set("text", "a \"b\"");
        let object = Object::new().set("y", [1.0, f64::NAN]).object("title", inner()).set("x", 0);
        let object = object.objects("none", Vec::new()).objects("two", vec![inner(), Object::new()]);
        let text = r#"{"text":"a \"b\""}"#;
        let json = format!(r#"{{"y":[1.0,null],"title":{text},"x":0,"none":[],"two":[{text},{{}}]}}"#);
        assert_eq!(object.into_json(), json);
    }
}
