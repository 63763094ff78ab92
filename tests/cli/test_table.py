from edgeperf.ui import table


def test_columns_line_up_and_numbers_stand_to_the_right() -> None:
    lines = table(["knob", "now", ""], [("cpu0.max", "1734 MHz", ""), ("fan", "0", "off")], right=(1,)).split("\n")
    assert lines == ["knob           now", "cpu0.max  1734 MHz", "fan              0  off"]


def test_a_row_stays_one_line_whatever_a_cell_holds() -> None:
    assert table(["host", "result"], [("nano", "first\nsecond")]).split("\n")[1:] == ["nano  first second"]


def test_a_table_without_rows_is_its_head() -> None:
    assert table(["host", "result"], []) == "host  result"
