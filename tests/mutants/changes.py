"""Where a C file can be changed by one operator, constant, call or condition, so that it still compiles, mostly."""
import re
from dataclasses import dataclass

TOKEN = re.compile(
    r"""(?P<blank>\s+)
    |(?P<comment>/\*.*?\*/|//[^\n]*)
    |(?P<directive>(?<![^\n])[ \t]*\#(?:\\\n|/\*.*?\*/|[^\n])*)
    |(?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
    |(?P<number>\.?[0-9](?:[eEpP][+-]|[0-9a-zA-Z_.])*)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<sign><<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[^\s\w])""",
    re.S | re.X)

SWAPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "+": "-", "-": "+", "&&": "||", "||": "&&",
         "+=": "-=", "-=": "+=", "<<": ">>", ">>": "<<", "|": "&", "/": "*", "%": "/", "|=": "&=", "++": "--", "--": "++"}
KEYWORDS = {"if", "else", "for", "while", "do", "switch", "case", "default", "return", "break", "continue", "goto", "sizeof",
            "alignof", "typeof", "__typeof__", "__asm__", "assert", "static_assert", "_Static_assert", "offsetof"}
KINDS = ("operator", "constant", "call", "condition")


@dataclass(frozen=True)
class Token:
    kind: str
    text: str
    start: int

    @property
    def end(self):
        return self.start + len(self.text)


@dataclass(frozen=True)
class Change:
    kind: str  # one of KINDS
    start: int  # the characters [start, end) of the file become `new`
    end: int
    old: str
    new: str

    def what(self):
        """What has changed, on one line."""
        if self.kind == "call":
            return "left out: " + shorten(self.old)
        if self.kind == "condition":
            return "negated: " + shorten(self.old)
        return f"{self.old} -> {self.new}" if self.new else f"left out: {self.old}"


def shorten(text):
    text = " ".join(text.split())
    return text if len(text) <= 60 else text[:57] + "..."


def tokens(text):
    found, at = [], 0
    while at < len(text):
        match = TOKEN.match(text, at)
        if not match:
            raise ValueError(f"no token at byte {at}: {text[at:at + 20]!r}")
        if match.lastgroup not in ("blank", "comment", "directive"):
            found.append(Token(match.lastgroup, match[0], at))
        at = match.end()
    return found


def partners(code):
    """The index of each closing bracket by that of its opening one."""
    pairs, open_at = {}, []
    for i, token in enumerate(code):
        if token.kind == "sign" and token.text in "([{":
            open_at.append(i)
        elif token.kind == "sign" and token.text in ")]}" and open_at:
            pairs[open_at.pop()] = i
    return pairs


def bodies(code, pairs):
    """The ranges of indices that are function bodies: a brace behind a parenthesis, outside of any other."""
    i = 0
    while i < len(code):
        if code[i].text == "{":
            if i and code[i - 1].text == ")":
                yield range(i + 1, pairs.get(i, len(code)))
            i = pairs.get(i, len(code))
        i += 1


def is_binary(code, i):
    before = code[i - 1]
    is_name = before.kind == "name" and before.text not in KEYWORDS
    return is_name or before.kind in ("number", "text") or before.text in (")", "]")


def of_operator(code, i):
    token = code[i]
    if token.text == "!":
        return Change("operator", token.start, token.end, "!", "")
    if token.text not in SWAPS or (token.text in "+-|/%<>" and not is_binary(code, i)):
        return None
    return Change("operator", token.start, token.end, token.text, SWAPS[token.text])


def of_constant(code, i):
    match = re.fullmatch(r"(0[xX][0-9a-fA-F]+|[0-9]+)([uUlL]*)", code[i].text)
    if not match or code[i - 1].text in (".",):
        return None
    value = int(match[1], 8 if re.fullmatch("0[0-7]+", match[1]) else 0)
    new = 0 if value == 1 else value + 1
    written = hex(new) if match[1][:2] in ("0x", "0X") else str(new)
    return Change("constant", code[i].start, code[i].end, code[i].text, written + match[2])


def of_call(code, i, pairs):
    """A statement that is a call and nothing else."""
    before = code[i - 1].text
    if before not in (";", "{", "}", ")", "else", ":") or code[i].text in KEYWORDS:
        return None
    at = i
    while at + 2 < len(code) and code[at + 1].text in ("->", ".") and code[at + 2].kind == "name":
        at += 2
    if at + 1 >= len(code) or code[at + 1].text != "(" or at + 1 not in pairs:
        return None
    end = pairs[at + 1] + 1
    if end >= len(code) or code[end].text != ";":
        return None
    if before == ")" and not re.fullmatch("if|for|while|switch", head_of(code, i - 1, pairs)):
        return None  # a cast, or a macro in front
    return code[i].start, code[end - 1].end


def head_of(code, closing, pairs):
    for opening, partner in pairs.items():
        if partner == closing:
            return code[opening - 1].text if opening else ""
    return ""


def changes(text):
    """All changes of a file's text, in order."""
    code = tokens(text)
    pairs = partners(code)
    found = []
    for body in bodies(code, pairs):
        for i in body:
            token = code[i]
            if token.kind == "sign":
                found.append(of_operator(code, i))
            elif token.kind == "number":
                found.append(of_constant(code, i))
            elif token.kind == "name" and token.text in ("if", "while") and i + 1 in pairs:
                start, end = code[i + 1].start, code[pairs[i + 1]].end
                found.append(Change("condition", start, end, text[start:end], f"(!{text[start:end]})"))
            elif token.kind == "name":
                span = of_call(code, i, pairs)
                if span:
                    found.append(Change("call", *span, text[slice(*span)], "(void)0"))
    return [change for change in found if change]
