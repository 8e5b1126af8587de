"""The words of pages in other languages, by the English ones.

Names and texts of the cluster, findings of the doctor among them, are shown as they are.
"""

from collections.abc import Mapping
from typing import Final

LANGUAGES: Final = {"en": "English", "zh": "中文"}

_CHINESE: Final[Mapping[str, str]] = {
    "Light": "浅色",
    "Dark": "深色",
    "Theme": "主题",
    "Skip to content": "跳到正文",
    "Pages": "页面",
    "Log out": "退出",
    "Log in": "登录",
    "User": "用户",
    "Password": "密码",
    "User or password is wrong.": "用户名或密码错误。",
    "The cluster does not answer": "集群没有响应",
    "Shown is what was known at": "显示的是此时的数据：",
    "Without": "缺少",
    "Span": "时间范围",
    "Nothing is known of the cluster yet.": "还没有集群的数据。",
    "Asking the cluster for the first time …": "正在首次查询集群……",
    "Pages of the table": "表格分页",
    "Previous": "上一页",
    "Next": "下一页",
    "Overview": "总览",
    "Sent": "发送",
    "Delivered": "投递",
    "msg/s": "条/秒",
    "Lag": "堆积",
    "messages": "条消息",
    "Topics": "主题",
    "Groups": "消费组",
    "Groups with dead letters": "有死信的消费组",
    "Findings": "诊断",
    "The first examination is running …": "正在进行首次诊断……",
    "Nothing is wrong.": "一切正常。",
    "problem": "问题",
    "warning": "警告",
    "Remedy": "处理办法",
    "Cluster": "集群",
    "Name servers": "名称服务器",
    "Name server": "名称服务器",
    "master": "主",
    "slave": "从",
    "disk": "磁盘",
    "full on": "预计写满时间",
    "replica lag": "复制延迟",
    "epoch": "纪元",
    "writes are forbidden": "禁止写入",
    "lost": "失联",
    "since": "自",
    "Whether brokers were lost is not known: Apache's name servers do not remember them.": "无法得知是否有代理失联：Apache 的名称服务器不保存这类记录。",
    "Messages a second": "每秒消息数",
    "Lag of all groups": "所有消费组的堆积",
    "Not possible": "无法完成",
}

_WORDS: Final[Mapping[str, Mapping[str, str]]] = {"zh": _CHINESE}


def translation(language: str, text: str) -> str:
    """The text itself where there is none."""
    return _WORDS.get(language, {}).get(text, text)
