"""Answers queries, one a line as JSON, with DuckDB: {"rows": [...], "types": [...]} or {"error": "..."}."""

import datetime
import decimal
import json
import struct
import sys

import duckdb

EPOCH = datetime.datetime(1970, 1, 1)
EXACT = decimal.Context(prec=80)


def plain(value):
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return str(value)
    if isinstance(value, decimal.Decimal):
        return str(int(value.scaleb(-value.as_tuple().exponent, EXACT)))
    if isinstance(value, float):
        return "nan" if value != value else struct.pack(">d", value + 0.0).hex()
    if isinstance(value, datetime.datetime):
        return str((value - EPOCH) // datetime.timedelta(microseconds=1))
    if isinstance(value, datetime.date):
        return str(value.toordinal() - EPOCH.toordinal())
    return "'" + value


connection = duckdb.connect()
# One thread takes rows in order: sums of floating-point numbers depend on it.
connection.execute("SET threads = 1")
# An optimizer may find that a sum cannot overflow, or need not be made; what SQL says is what it does without. A test whose
# joins are too large without turns it on.
connection.execute("PRAGMA disable_optimizer")
print(json.dumps(duckdb.__version__), flush=True)
for line in sys.stdin:
    try:
        relation = connection.sql(json.loads(line))
        answer = {}
        if relation is not None:
            answer["types"] = [str(kind) for kind in relation.types]
            answer["rows"] = [[plain(value) for value in row] for row in relation.fetchall()]
    except duckdb.Error as error:
        answer = {"error": str(error).split("\n")[0]}
    print(json.dumps(answer), flush=True)
