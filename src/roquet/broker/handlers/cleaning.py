"""Old files of the log go by themselves at night, or at once when an operator says so (329)."""

import logging

from roquet.broker.broker import Broker
from roquet.net.errors import Refused
from roquet.net.router import Reply, Request, on
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.headers.addressed import NoFields
from roquet.store.errors import StoreUnavailable

log = logging.getLogger(__name__)


def clean_store(broker: Broker, *, is_requested: bool = False) -> None:
    """Forgets old files of the store. Raises StoreUnavailable."""
    report = broker.store.clean(is_requested=is_requested)
    if report.file_count:
        log.info(
            "forgot %d files of the log, which begins at %d now",
            report.file_count,
            report.log_start,
        )
    if report.is_disk_full:
        log.error("no message is taken: %d percent of the disk are in use", report.used_percent)


def delete_old_files(broker: Broker, _request: Request[NoFields]) -> Reply:
    try:
        clean_store(broker, is_requested=True)
    except StoreUnavailable as error:
        raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from None
    return Reply()


ROUTES = (on(RequestCode.DELETE_EXPIRED_COMMITLOG, NoFields, delete_old_files),)
