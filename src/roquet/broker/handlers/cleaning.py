"""An operator does not want to wait until old files go by themselves (329)."""

from roquet.broker.broker import Broker
from roquet.net.errors import Refused
from roquet.net.router import Reply, Request, on
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.headers.addressed import NoFields
from roquet.store.errors import StoreUnavailable


def delete_old_files(broker: Broker, _request: Request[NoFields]) -> Reply:
    try:
        broker.expiry.clean(is_requested=True)
    except StoreUnavailable as error:
        raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from None
    return Reply()


ROUTES = (on(RequestCode.DELETE_EXPIRED_COMMITLOG, NoFields, delete_old_files),)
