"""Opens databases, runs transactions, upgrades schemas, and turns database errors into `StoreError`."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, wraps
from itertools import chain, count
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from sqlalchemy import URL, Connection, Table, create_engine, event, exc, insert, inspect, make_url, text
from sqlalchemy.pool import StaticPool

from evovpo.errors import StoreError
from evovpo.store.schema import SCHEMA_VERSION, metadata

DEFAULT_URL = "sqlite:///evovpo.db"
BUSY_SECONDS = 60.0
"""Longest wait for a lock of another process; `?timeout=SECONDS` in a SQLite URL overrides it."""
_RETRY_SECONDS = 0.05
_MOST_ATTEMPTS = 20
_COLLISIONS = ("23505", "40001", "40P01")
_ONE_MIGRATION = threading.Lock()
"""Lock for Alembic, whose context is global in the process."""
_MIGRATION_LOCK = 0x65766F76706F  # "evovpo"
_ADVICE = (
    ("file is not a database", "the file holds something else: give another path"),
    ("malformed", "the file is damaged: copy it, and try `sqlite3 FILE .recover`"),
    ("could not extend file", "the disk of the server is full: make room, then resume; all told is kept"),
    ("statement timeout", "the server is slow, or another process holds a lock: try again"),
    ("closed the connection", "see why the server ended it, then resume; all told is kept"),
    ("connection to server", "check that the server runs, its address and its database; all told is kept"),
    ("database is locked", "another process is writing: wait for it or end it, then try again"),
    ("disk is full", "the disk is full: make room, then resume; all that was told before is kept"),
    ("disk I/O error", "the disk is full or failing: make room, then resume; all told before is kept"),
    ("unable to open database file", "the folder must exist and be writable"),
    ("readonly database", "the file and its folder must be writable"),
)

T = TypeVar("T")
P = ParamSpec("P")


def parse_url(url: str | None) -> URL:
    """Return the SQLAlchemy URL for a text: a URL, a path or `:memory:`. None stands for the default URL."""
    if url is None:
        url = DEFAULT_URL
    if "://" not in url:
        return URL.create("sqlite", database=url if url == ":memory:" else str(Path(url).expanduser()))
    try:
        found = make_url(url)
    except (exc.ArgumentError, ValueError):  # ValueError: part of an unescaped password is read as the port
        raise StoreError(
            "the store address is not a database URL; expected a path, sqlite:///PATH, or for example "
            "postgresql+psycopg://USER:PASSWORD@HOST/NAME (in the password %40 for @, %2F for /, %3A for :)"
        ) from None
    if found.drivername in ("postgres", "postgresql"):
        raise StoreError(
            f"the store address begins with {found.drivername}:// and names no driver; write "
            "postgresql+psycopg:// in its place, which needs `pip install 'evovpo[postgres]'`"
        )
    return found


class Database:
    def __init__(self, url: URL) -> None:
        hidden = [option for option in url.query if "pass" in option.lower()]
        shown = url.update_query_dict(dict.fromkeys(hidden, "hidden"))
        self.name = shown.render_as_string(hide_password=True)
        """The URL without passwords, for messages and stored configurations."""
        passwords = (url.password, *chain.from_iterable(url.normalized_query[option] for option in hidden))
        self._secrets = [secret for secret in passwords if secret]
        self._is_sqlite = url.get_backend_name() == "sqlite"
        place = url.database or ":memory:"
        in_memory = self._is_sqlite and place == ":memory:"
        is_file = self._is_sqlite and not in_memory and not place.startswith("file:")
        self.file = Path(place) if is_file else None
        """The SQLite file, or None for any other database."""
        self._identity: tuple[int, int] | None = None
        options: dict[str, Any] = {"poolclass": StaticPool} if in_memory else {}
        with self._faults():
            try:
                self._busy_seconds = float(str(url.query.get("timeout", BUSY_SECONDS)))
                if self._is_sqlite:
                    options["connect_args"] = {"timeout": self._busy_seconds}
                self._pool = create_engine(url, **options)
            except (exc.NoSuchModuleError, ModuleNotFoundError) as error:
                raise StoreError(
                    f"{self.name}: the driver for this kind of database is not installed ({error}); install "
                    "it, for example `pip install 'psycopg[binary]'` for postgresql+psycopg://"
                ) from error
            except (TypeError, ValueError) as error:
                reason = self._without_secrets(str(error))
                raise StoreError(f"{self.name}: an option in the URL cannot be used: {reason}") from error
        is_postgres = url.get_backend_name() == "postgresql"
        snapshot = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True} if is_postgres else {}
        self._reader = self._pool.execution_options(**snapshot)
        self._one_writer = threading.Lock()
        # Ctrl-C during a commit leaves its transaction open.
        event.listen(self._pool, "checkout", lambda connection, *_: connection.rollback())
        if self._is_sqlite:
            event.listen(self._pool, "connect", _prepare_sqlite)

    @classmethod
    def open(cls, url: str | None = None, *, create: bool = True) -> Self:
        """Return the store at a path or SQLAlchemy URL (default `evovpo.db` in the current directory).

        If `create` is true, a missing store is created. Raises StoreError if the database cannot be opened,
        is not a store, or has another schema version.
        """
        database = cls(parse_url(url))
        name = database.name
        if database.file is not None and not create and not database.file.exists():
            raise StoreError(f"{name}: there is no such store; check the path, or start a run to create it")
        try:
            found = database.schema_version()
            if found is None and create:
                database.migrate()
            elif found is None:
                raise StoreError(f"{name} holds no store yet; start a run to create it")
            elif found != SCHEMA_VERSION:
                raise StoreError(
                    f"{name} has schema version {found}, this evovpo expects {SCHEMA_VERSION}; run "
                    f"`evovpo store upgrade {name}`, or install the evovpo that wrote it if that is newer"
                )
        except BaseException:
            database.close()
            raise
        return database

    def read(self, query: Callable[[Connection], T]) -> T:
        """Return the result of `query`, run in a read-only transaction that sees one consistent state."""

        def once() -> T:
            with self._reader.connect() as connection:
                if self._is_sqlite:
                    connection.exec_driver_sql("BEGIN")
                return query(connection)

        return self._patiently(once)

    def write(self, append: Callable[[Connection], T]) -> T:
        """Run `append` in one transaction, commit the transaction, and return the result of `append`.

        If the connection is lost before the commit, the transaction is repeated. If it is lost during the
        commit, StoreError is raised, and the rows may or may not be stored.
        """

        def once() -> T:
            with (
                self._one_writer,
                self._pool.connect() as connection,
                self._still_there(connection),
                connection.begin() as transaction,
            ):
                if self._is_sqlite:
                    # A transaction that begins with a read can fail halfway if another process writes.
                    connection.exec_driver_sql("BEGIN IMMEDIATE")
                value = append(connection)
                try:
                    transaction.commit()
                except exc.DBAPIError as error:
                    if not error.connection_invalidated:
                        raise
                    raise StoreError(
                        f"{self.name}: the connection was lost while a group was being stored; it is there "
                        "as a whole or not at all: resume, which finds out and goes on"
                    ) from error
                return value

        return self._patiently(once, waits=True)

    @contextmanager
    def _still_there(self, connection: Connection) -> Iterator[None]:
        """If the SQLite file was deleted or replaced, save the content in a new file and raise StoreError."""
        identity = file_identity(self.file)
        self._identity = self._identity or identity
        if self.file is not None and identity != self._identity:
            rescue = self.file.with_name(f"{self.file.name}.rescued")
            if not rescue.exists():
                connection.exec_driver_sql("VACUUM INTO ?", (str(rescue),))
            raise StoreError(
                f"{self.name} was deleted or replaced while it was in use; all that was told is in {rescue}: "
                "put that in its place, then resume"
            )
        yield

    def _patiently(self, work: Callable[[], T], waits: bool = False) -> T:
        """Return the result of `work`, with retries. If `waits` is true, wait for an unreachable server."""
        until = time.monotonic() + self._busy_seconds
        with self._faults():
            for attempt in count(1):
                try:
                    return work()
                except exc.DBAPIError as error:
                    if time.monotonic() > until or not self._is_passing(error, attempt, waits):
                        raise
                    time.sleep(_RETRY_SECONDS)
        raise AssertionError("unreachable")

    def _is_passing(self, error: exc.DBAPIError, attempt: int, waits: bool) -> bool:
        if self._is_sqlite:
            return "database is locked" in str(error.orig)
        state = getattr(error.orig, "sqlstate", None)
        if error.connection_invalidated or state in _COLLISIONS:
            return attempt < _MOST_ATTEMPTS
        return waits and state is None and isinstance(error, exc.OperationalError)  # no server answers

    def close(self) -> None:
        self._pool.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def schema_version(self) -> str | None:
        """Return the Alembic revision of the database, or None for an empty database."""
        return self.read(self._find_version)

    def migrate(self) -> None:
        """Create the tables, or upgrade them to the newest version, in one transaction."""
        # Not in `_prepare_sqlite`, which would change a file that may not be a store.
        if self._is_sqlite:
            self._outside_transaction("PRAGMA journal_mode=WAL")
        # Imported here to keep opening an existing store fast, and before `write` takes the lock.
        import alembic.command  # noqa: F401

        self.write(self._migrate)

    def compact(self) -> None:
        """Shrink the SQLite file after rows were removed; do nothing for any other database."""
        if self.file is not None:
            self._outside_transaction("VACUUM")

    def _outside_transaction(self, statement: str) -> None:
        def run() -> None:
            with self._pool.connect() as connection:
                connection.exec_driver_sql(statement)

        self._patiently(run)

    def _find_version(self, connection: Connection) -> str | None:
        names = inspect(connection).get_table_names()
        if "alembic_version" in names and "prompts" in names:
            return str(connection.scalar(text("SELECT version_num FROM alembic_version")))
        if names:
            raise StoreError(
                f"{self.name} is a database of something else: expected the tables of evovpo or none, found "
                f"{', '.join(sorted(names)[:4])}; give another path or URL"
            )
        return None

    def _migrate(self, connection: Connection) -> None:
        from alembic import command
        from alembic.config import Config
        from alembic.util import CommandError

        if connection.dialect.name == "postgresql":  # SQLite: BEGIN IMMEDIATE is a lock already
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})
        found = self._find_version(connection)
        if found == SCHEMA_VERSION:  # another process was faster
            return
        config = Config()
        folder = Path(__file__).parent / "migrations"
        config.set_main_option("script_location", str(folder).replace("%", "%%"))
        config.set_main_option("path_separator", "os")
        config.attributes["connection"] = connection
        try:
            with _ONE_MIGRATION:
                if found is None:
                    metadata.create_all(connection)
                    command.stamp(config, "head")
                else:
                    command.upgrade(config, "head")
        except CommandError as error:
            raise StoreError(
                f"{self.name} has schema version {found}, which this evovpo does not know (it goes up to "
                f"{SCHEMA_VERSION}): install the newer evovpo that wrote it"
            ) from error

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except exc.SQLAlchemyError as error:
            cause = error.orig if isinstance(error, exc.StatementError) and error.orig else error
            reason = (str(cause).strip() or type(cause).__name__).splitlines()[0]
            advice = "".join(f"; {what}" for sign, what in _ADVICE if sign in reason)
            raise StoreError(f"{self.name}: {self._without_secrets(reason)}{advice}") from error

    def _without_secrets(self, message: str) -> str:
        for secret in self._secrets:
            message = message.replace(secret, "***")
        return message


S = TypeVar("S", bound=Database)


def reading(method: Callable[Concatenate[S, Connection, P], T]) -> Callable[Concatenate[S, P], T]:
    """Return `method` wrapped in a read-only transaction, which provides the argument `connection`."""

    @wraps(method)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.read(lambda connection: method(self, connection, *args, **kwargs))

    return call


def writing(method: Callable[Concatenate[S, Connection, P], T]) -> Callable[Concatenate[S, P], T]:
    """Return `method` wrapped in a write transaction, which provides the argument `connection`."""

    @wraps(method)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.write(lambda connection: method(self, connection, *args, **kwargs))

    return call


def append(connection: Connection, table: Table, rows: Sequence[dict[str, Any]]) -> None:
    if rows:
        connection.execute(_insert(table), rows)


_insert = cache(insert)


def upgrade(url: str | None = None) -> str:
    """Upgrade the database at `url` to the current schema and return its version. All rows stay."""
    database = Database(parse_url(url))
    if database.file is not None and not database.file.exists():
        raise StoreError(f"{database.name}: there is no such store to upgrade; check the path")
    with database:
        database.schema_version()
        database.migrate()
    return SCHEMA_VERSION


def file_identity(file: Path | None) -> tuple[int, int] | None:
    with suppress(OSError):
        if file is not None:
            found = file.stat()
            return found.st_dev, found.st_ino
    return None


def _prepare_sqlite(connection: Any, _record: object) -> None:
    # Otherwise the driver begins transactions itself, late and only before some statements.
    connection.isolation_level = None
    connection.execute("PRAGMA foreign_keys=ON")
    connection.execute("PRAGMA synchronous=NORMAL")
