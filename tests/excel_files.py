"""Excel files for tests, with cells as a spreadsheet program would leave them."""

import re
import zipfile

import openpyxl


def sheet(columns):
    """Rows of a sheet: the names, then the cells."""
    return [list(columns), *map(list, zip(*columns.values(), strict=True))]


def write_book(path, **sheets):
    """A file of sheets of rows; text stays text, whatever it begins with."""
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        made = book.create_sheet(name)
        for number, row in enumerate(rows, 1):
            for at, value in enumerate(row, 1):
                if value not in (None, ""):
                    cell = made.cell(number, at, value)
                    if isinstance(value, str) and not value.startswith(("=", "#")):
                        cell.data_type = "s"
    book.save(path)
    return path


def with_values(path, values, part="xl/worksheets/sheet1.xml"):
    """The same file with the values of its formulas saved beside them, by cell."""
    with zipfile.ZipFile(path) as old:
        content = {name: old.read(name) for name in old.namelist()}
    text = content[part].decode()
    for cell, value in values.items():
        text, found = re.subn(
            rf'(<c r="{cell}"[^>]*><f>[^<]*</f>)<v\s*(?:/>|></v>)', rf"\g<1><v>{value}</v>", text
        )
        assert found == 1
    content[part] = text.encode()
    with zipfile.ZipFile(path, "w") as new:
        for name, data in content.items():
            new.writestr(name, data)
    return path
