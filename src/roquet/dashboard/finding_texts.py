"""Findings of the doctor in Chinese, by the patterns of their English texts.

Names, numbers, addresses and commands stay as they are. A text without a pattern, such as the error
that a broker returned, is shown in English.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple


class _Form(NamedTuple):
    matches: re.Pattern[str]
    # With the groups of the pattern as \1, \2 ...; one that matched nothing is blank.
    chinese: str


def _forms(*pairs: tuple[str, str]) -> tuple[_Form, ...]:
    return tuple(_Form(re.compile(pattern), chinese) for pattern, chinese in pairs)


_LEFT: Final = r"(?:; its last members left at (\S+ \S+): (.*))?"
_SUBJECTS: Final = _forms(
    (r"([\d,]+) topics?", r"\1 个主题"),
    (r"([\d,]+) groups?", r"\1 个消费组"),
    (r"([\d,]+) brokers?", r"\1 个代理"),
    (r"([\d,]+) name servers?", r"\1 个名称服务器"),
    (r"topic (.+)", r"主题 \1"),
    (r"group (.+)", r"消费组 \1"),
    (r"broker (.+)", r"代理 \1"),
    (r"name server (.+)", r"名称服务器 \1"),
    (r"brokers", r"代理"),
)
_TEXTS: Final = _forms(
    # Of servers.
    (r"unreachable: (.*)", r"无法连接：\1"),
    (r"its certificate expired at (.*)", r"证书已于 \1 过期"),
    (r"its certificate expires at (.*)", r"证书将于 \1 过期"),
    (r"its certificate has expired, or will soon", r"证书已过期或即将过期"),
    (r"no broker is registered", r"没有代理注册"),
    (
        r"has no master: it delivers messages but accepts none",
        r"没有主代理：可以投递消息，但不接收新消息",
    ),
    (
        (
            r"(.*) at (\S+) is lost since (\S+ \S+) \((.*)\): its messages cannot be read, and are"
            r" missing in all counts and queries"
        ),
        r"\2（\1）自 \3 起失联（\4）：其消息无法读取，所有统计和查询中都不包括它们",
    ),
    (
        (
            r"(.*) at (\S+) is lost since (\S+ \S+) \((.*)\): its slaves deliver messages but accept"
            r" none"
        ),
        r"\2（\1）自 \3 起失联（\4）：其从代理可以投递消息，但不接收新消息",
    ),
    (
        r"(.*) at (\S+) is lost since (\S+ \S+) \((.*)\): its messages have a replica less",
        r"\2（\1）自 \3 起失联（\4）：其消息少了一个副本",
    ),
    (
        r"findings about topics and groups are without it: (.*)",
        r"主题和消费组的诊断不包括它：\1",
    ),
    (
        r"advertises (\S+), a loopback address: clients elsewhere cannot connect",
        r"公布的地址 \1 是回环地址：其他机器上的客户端无法连接",
    ),
    (
        r"its clock is (\d+) s ahead of the local one: delays and resets by time are off by as much",
        r"时钟比本机快 \1 秒：延时消息和按时间重置会有同样的偏差",
    ),
    (
        r"its clock is (\d+) s behind the local one: delays and resets by time are off by as much",
        r"时钟比本机慢 \1 秒：延时消息和按时间重置会有同样的偏差",
    ),
    (
        (
            r"([\d,]+) messages that no other replica had were cut off its log, and are in (\d+) files"
            r" of divergent/\.(.*)"
        ),
        r"有 \1 条其他副本没有的消息从日志中截去，保存在 divergent/ 的 \2 个文件中。\3",
    ),
    (r"its disk is (\S+) full: it rejects messages", r"磁盘已用 \1：拒绝接收消息"),
    (
        r"its disk is (\S+) full: from (\S+) on it rejects messages",
        r"磁盘已用 \1：达到 \2 后将拒绝接收消息",
    ),
    (r"reads are forbidden \((.*)\)", r"禁止读取（\1）"),
    (r"reads are forbidden at (.*)", r"\1 禁止读取"),
    (r"writes are forbidden at (.*)", r"\1 禁止写入"),
    (
        r"not found at the brokers that answered; (.*) may have it",
        r"在已响应的代理上未找到；可能在 \1 上",
    ),
    (
        r"it has no gRPC endpoint, as (\S+) has: SDKs of 5.x do not reach its queues",
        r"它没有 gRPC 端点，而 \1 有：5.x 的 SDK 无法访问它的队列",
    ),
    (
        r"routes send SDKs of 5.x to (\S+), which cannot be connected to from here: (.*)",
        r"路由让 5.x 的 SDK 访问 \1，但从这里无法连接：\2",
    ),
    # Of topics.
    (r"no broker accepts messages for it", r"没有代理接收它的消息"),
    (
        (
            r"(\d+) write queues but only (\d+) read queues at (.*): messages of the others are not"
            r" delivered"
        ),
        r"\3 上有 \1 个写队列，却只有 \2 个读队列：其余队列的消息不会被投递",
    ),
    (
        r"more write than read queues at (.*): messages of the others are not delivered",
        r"\1 上写队列多于读队列：其余队列的消息不会被投递",
    ),
    (
        r"does not exist yet; the first message creates it, with four queues",
        r"尚不存在；第一条消息会创建它，有四个队列",
    ),
    (
        r"does not exist, and automatic creation is off \(autoCreateTopicEnable\)",
        r"不存在，且自动创建已关闭（autoCreateTopicEnable）",
    ),
    # Of groups.
    (
        r"is disabled at (.*): its members receive no messages",
        r"在 \1 上已停用：成员收不到消息",
    ),
    (
        r"no member is connected; ([\d,]+) messages are waiting" + _LEFT,
        r"没有成员在线，有 \1 条消息堆积。最后离开：\2 \3",
    ),
    (
        r"no member is connected; ([\d,]+) messages wait for their next try"
        r"(?:, the next at (\S+ UTC))?" + _LEFT,
        r"没有成员在线，有 \1 条消息等待重试（下一次 \2）。最后离开：\3 \4",
    ),
    (r"no member is connected, and messages are waiting", r"没有成员在线，且有消息堆积"),
    (
        r"([\d,]+) messages are waiting, the oldest for (.*)",
        r"有 \1 条消息堆积，最早的已等待 \2",
    ),
    (r"messages are waiting for more than (.*)", r"有消息等待超过 \1"),
    (
        r"(\d+) members share (\d+) queues: some are idle",
        r"\1 个成员分 \2 个队列：有成员空闲",
    ),
    (r"more members than queues: some are idle", r"成员多于队列：有成员空闲"),
    (
        r"its members have different subscriptions, so some miss messages: (.*)",
        r"成员的订阅不一致，有的成员会漏掉消息：\1",
    ),
    (
        r"its members have different subscriptions, so some miss messages",
        r"成员的订阅不一致，有的成员会漏掉消息",
    ),
    (
        r"(\S+) has not finished message (.+) of (\S+ \S+) for ([^,]*)(?:, and (\d+) more)?",
        r"\1 处理 \3 的消息 \2 已有 \4 未完成（另有 \5 条）",
    ),
    (
        r"(\S+) has finished no message of (\S+ \S+) for (.*)",
        r"\1 已有 \3 没有处理完 \2 的任何消息",
    ),
    (r"has ([\d,]+) dead letters", r"有 \1 条死信"),
    (r"has dead letters", r"有死信"),
)
_REMEDIES: Final = _forms(
    (
        r"start it \(roquet namesrv\), or correct -n, NAMESRV_ADDR or the config file",
        r"启动它（roquet namesrv），或更正 -n、NAMESRV_ADDR 或配置文件",
    ),
    (r"replace its certificate files, and send it SIGHUP", r"更换证书文件，并向它发送 SIGHUP"),
    (
        r"set grpcPort there, or run roquet proxy",
        r"在那里设置 grpcPort，或运行 roquet proxy",
    ),
    (
        r"let connections to grpcPort pass, or run roquet proxy where its clients reach it",
        r"放行到 grpcPort 的连接，或在客户端能访问的地方运行 roquet proxy",
    ),
    (
        r"start one with: (.*); check its log for registration errors",
        r"启动一个代理：\1；并在其日志中检查注册错误",
    ),
    (
        (
            r"restart its master; if it is gone for good, promote a slave: (.*); with replication\.etcd"
            r" one is elected"
        ),
        r"重启主代理；如果它无法恢复，提升一个从代理：\1；使用 replication.etcd 时会自动选举",
    ),
    (r"restart it; if it is gone for good: (.*)", r"重启它；如果无法恢复：\1"),
    (
        (
            r"start it, or advertise a reachable address \(--advertise, brokerIP1\), or allow"
            r" connections to (.*)"
        ),
        r"启动它，或公布可达的地址（--advertise、brokerIP1），或允许连接 \1",
    ),
    (
        r"start it with --advertise HOST, or set brokerIP1",
        r"用 --advertise HOST 启动，或设置 brokerIP1",
    ),
    (
        r"compare all brokers: roquet cluster; see docs/replication\.md",
        r"比较所有代理：roquet cluster；见 docs/replication.md",
    ),
    (r"synchronize clocks \(NTP\)", r"同步时钟（NTP）"),
    (
        r"on its machine: (.*), and then with --resend -n ADDRESS",
        r"在该机器上执行：\1，然后加上 --resend -n ADDRESS",
    ),
    (
        r"free disk space, add a disk, or lower fileReservedTime",
        r"释放磁盘空间、增加磁盘，或减小 fileReservedTime",
    ),
    (r"repair first what is wrong with (.*)", r"先修复 \1 的问题"),
    (
        r"start its consumers; or if it is unused: (.*)",
        r"启动它的消费者；如果不再使用：\1",
    ),
    (
        r"add members up to the number of queues, or inspect a slow one: (.*)",
        r"增加成员（不超过队列数），或检查慢的成员：\1",
    ),
    (r"add queues: (.*)", r"增加队列：\1"),
    (
        r"give all members the same subscriptions, or use separate groups",
        r"让所有成员使用相同的订阅，或使用不同的消费组",
    ),
    (r"see where it waits: (.*)", r"查看它在哪里等待：\1"),
    (r"see the errors: (.*); then: (.*)", r"查看错误：\1；然后：\2"),
    (r"use --tls, with --tls-ca FILE for a private CA", r"使用 --tls；私有 CA 加上 --tls-ca FILE"),
)
# Of a line about several of a kind: the doctor's verbs of many, and examples at the end.
_MANY: Final = {"have": "has", "are": "is", "do": "does"}
_WITH_EXAMPLES: Final = re.compile(r"(.*): ([^:]+?)(?: and ([\d,]+) more)?", re.DOTALL)
_BLANK_PARTS: Final = ("。最后离开： ", "（下一次 ）", "（另有  条）", "（另有 条）")


def finding_subject(language: str, text: str) -> str:
    return _translated(language, _SUBJECTS, text) or text


def finding_text(language: str, text: str) -> str:
    """Of one finding, or of several with the same cause."""
    found = _translated(language, _TEXTS, text)
    if found is not None:
        return found
    several = _WITH_EXAMPLES.fullmatch(text)
    if several is None:
        return text
    cause, names, more = several.groups()
    verb, space, rest = cause.partition(" ")
    found = _translated(language, _TEXTS, _MANY.get(verb, verb) + space + rest)
    if found is None:
        return text
    return f"{found}：{names}" + (f" 等（另有 {more} 个）" if more else "")


def finding_remedy(language: str, text: str) -> str:
    each, colon, rest = text.partition("for each: ")
    if not each and colon and language == "zh":
        return "逐个处理：" + finding_remedy(language, rest)
    return _translated(language, _REMEDIES, text) or text


def _translated(language: str, forms: Sequence[_Form], text: str) -> str | None:
    if language != "zh":
        return None
    for form in forms:
        found = form.matches.fullmatch(text)
        if found is not None:
            shown = found.expand(form.chinese)
            for blank in _BLANK_PARTS:
                shown = shown.replace(blank, "")
            return shown
    return None
