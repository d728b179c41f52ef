"""Finding targets by registered name or as module:factory."""

from __future__ import annotations

import sys

import pytest

from kvref.configuration import Configuration
from kvref.promises import Promises
from kvref.registry import UnknownTarget, find, load, place, registered
from kvref.requests.target import RequestTargetFactory
from kvref.target import CannotBuild, TargetFactory
from tests.kvref import wrong_targets
from tests.kvref.oracle_target import OracleTarget

HERE = "tests.kvref.wrong_targets:"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A distribution that registers targets of its own."""
    info = tmp_path / "forks-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: forks\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[kvref.targets]\n"
        f"my-fork = {HERE}right\n"
        "broken-fork = no_such_module:factory\n"
        "[console_scripts]\n"
        "other = tests:main\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("installed")
class TestRegisteredNames:
    def test_they_are_listed_in_order_and_not_imported(self):
        assert [name for name in registered() if name.endswith("fork")] == [
            "broken-fork", "my-fork"
        ]  # fmt: skip
        assert "no_such_module" not in sys.modules

    def test_one_is_found_by_its_name(self):
        assert find("my-fork") is wrong_targets.right

    def test_one_that_cannot_be_imported_says_why(self):
        with pytest.raises(
            UnknownTarget, match="'broken-fork' cannot be imported: ModuleNotFoundError: No module"
        ):
            find("broken-fork")

    def test_one_that_exits_when_it_is_imported_or_built_ends_nobody_else(
        self, tmp_path, monkeypatch
    ):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "exits_at_import.py").write_text("import sys\nsys.exit(0)\n")
        with pytest.raises(UnknownTarget, match="cannot be imported: SystemExit: 0"):
            find("exits_at_import:factory")
        for factory in (TargetFactory(sys.exit), RequestTargetFactory(sys.exit)):
            with pytest.raises(CannotBuild, match="SystemExit: "):
                factory(Configuration())

    def test_a_near_miss_gets_a_hint(self):
        with pytest.raises(UnknownTarget, match=r"no target named 'my-frk' \(did you mean my-fork"):
            find("my-frk")

    def test_another_name_gets_the_known_ones(self):
        with pytest.raises(UnknownTarget, match=r"known: broken-fork, .*; or give module:factory"):
            find("qqqqqqqqqqq")


def test_where_nothing_is_registered_it_says_so(monkeypatch):
    monkeypatch.setattr("kvref.registry.entry_points", lambda group: [])
    with pytest.raises(UnknownTarget, match="known: none"):
        find("kvgpu-radix")


class TestModuleAndFactory:
    def test_a_factory_is_returned_as_it_is(self):
        assert find(HERE + "right") is wrong_targets.right

    def test_any_callable_is_one_that_promises_everything(self):
        factory = find(HERE + "OracleTarget")
        assert isinstance(factory, TargetFactory)
        assert factory.promises == Promises()
        assert factory.build is OracleTarget

    def test_an_attribute_of_an_attribute_can_be_named(self):
        assert find(HERE + "OracleTarget.ask").build is OracleTarget.ask

    @pytest.mark.parametrize("target", [HERE, ":x", ":", "nobody"])
    def test_what_has_neither_form_is_unknown_before_anything_is_imported(self, target):
        with pytest.raises(UnknownTarget, match="or give module:factory"):
            place(target)
        with pytest.raises(UnknownTarget, match="no target named"):
            load(target)

    def test_a_place_is_told_without_a_look_there(self):
        assert place("no_such:x") == "no_such:x"
        assert place("kvgpu-radix") == "kvref.targets.kvgpu:radix"

    @pytest.mark.parametrize("target", ["no_such:x", HERE + "no_such", "a..b:x"])
    def test_what_is_not_there_is_unknown(self, target):
        with pytest.raises(UnknownTarget, match="cannot be imported"):
            find(target)

    def test_a_module_that_fails_when_imported_says_why(self, tmp_path, monkeypatch):
        (tmp_path / "half_a_fork.py").write_text("1 / 0\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        with pytest.raises(UnknownTarget, match="ZeroDivisionError: division by zero"):
            find("half_a_fork:make")

    def test_what_cannot_be_called_is_no_factory(self):
        with pytest.raises(UnknownTarget, match="is a int, not a factory"):
            find(HERE + "not_a_factory")

    def test_the_current_directory_is_searched(self, tmp_path, monkeypatch):
        (tmp_path / "my_fork_of_it.py").write_text(
            "def make(configuration): return configuration\n"
        )
        monkeypatch.setattr(sys, "path", list(sys.path))
        monkeypatch.chdir(tmp_path)
        assert find("my_fork_of_it:make").build(7) == 7
        assert find("my_fork_of_it:make").build(7) == 7
        assert sys.path.count(str(tmp_path)) == 1
        del sys.modules["my_fork_of_it"]


def test_a_factory_builds_a_new_manager_each_time():
    configuration = Configuration(page_size=3)
    one, other = wrong_targets.right(configuration), wrong_targets.right(configuration)
    assert one.oracle is not other.oracle
    assert one.oracle.page_size == 3
