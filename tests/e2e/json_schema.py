"""Whether a document is as docs/schema/reeladm.json says: the part of JSON Schema that it uses.

More than the schema asks for is a fault here, too: a member that it does not name.
"""
import json
import os

from cluster import TOP

with open(os.path.join(TOP, "docs", "schema", "reeladm.json"), encoding="utf-8") as file:
    SCHEMA = json.load(file)
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None),
         "integer": int}


def is_of(value, kind):
    return isinstance(value, TYPES[kind]) and not (kind == "integer" and isinstance(value, bool))


def faults(value, schema, at=""):
    """What is wrong, a line each."""
    if "$ref" in schema:
        yield from faults(value, SCHEMA["$defs"][schema["$ref"].removeprefix("#/$defs/")], at)
        return
    if "oneOf" in schema:
        found = [list(faults(value, one, at)) for one in schema["oneOf"]]
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
    if "minimum" in schema and isinstance(value, int) and value < schema["minimum"]:
        yield f"{at}: {value} is less than {schema['minimum']}"
    if isinstance(value, dict) and "properties" in schema:
        for name in set(schema["required"]) - set(value):
            yield f"{at}: {name} is missing"
        for name, member in value.items():
            if name not in schema["properties"]:
                yield f"{at}: {name} is not in the schema"
            else:
                yield from faults(member, schema["properties"][name], f"{at}.{name}")
    if isinstance(value, list) and "items" in schema:
        for place, item in enumerate(value):
            yield from faults(item, schema["items"], f"{at}[{place}]")


def check(command, document):
    """`command`: as it stands in the schema, "config running"."""
    wrong = list(faults(document, SCHEMA["$defs"][command], command))
    assert not wrong, "\n".join(wrong)
