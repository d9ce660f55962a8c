"""Whether a document is as docs/schema/reeladm.json, or another schema there, says: the part of
JSON Schema that they use.

More than the schema asks for is a fault here, too: a member that it does not name.
"""
import json
import os

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None),
         "integer": int, "number": (int, float)}


def load(name):
    with open(os.path.join(TOP, "docs", "schema", name), encoding="utf-8") as file:
        return json.load(file)


SCHEMA = load("reeladm.json")


def is_of(value, kind):
    is_number = kind in ("integer", "number")
    return isinstance(value, TYPES[kind]) and not (is_number and isinstance(value, bool))


def faults(value, schema, at="", whole=SCHEMA):
    """What is wrong, a line each. `whole`: the document that the schema is of."""
    if "$ref" in schema:
        named = whole["$defs"][schema["$ref"].removeprefix("#/$defs/")]
        yield from faults(value, named, at, whole)
        return
    if "oneOf" in schema:
        found = [list(faults(value, one, at, whole)) for one in schema["oneOf"]]
        if [] not in found:
            yield from min(found, key=len)
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at}: {value!r} is none of {schema['enum']}"
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(is_of(value, kind) for kind in kinds):
        yield f"{at}: {value!r} is not of type {kinds}"
        return
    if "minimum" in schema and isinstance(value, (int, float)) and value < schema["minimum"]:
        yield f"{at}: {value} is less than {schema['minimum']}"
    if isinstance(value, dict) and "properties" in schema:
        for name in set(schema["required"]) - set(value):
            yield f"{at}: {name} is missing"
        for name, member in value.items():
            if name not in schema["properties"]:
                yield f"{at}: {name} is not in the schema"
            else:
                yield from faults(member, schema["properties"][name], f"{at}.{name}", whole)
    if isinstance(value, list) and "items" in schema:
        for place, item in enumerate(value):
            yield from faults(item, schema["items"], f"{at}[{place}]", whole)


def check(command, document, whole=SCHEMA):
    """`command`: as it stands in the schema, "config running"."""
    wrong = list(faults(document, whole["$defs"][command], command, whole))
    assert not wrong, "\n".join(wrong)
