"""An architecture goes in; the machine code of two functions that Python calls as it calls its own comes out.

What they do, in C, of which a compiler made the code (Python's vectorcall, ``METH_FASTCALL``; a test has the types and
the command, clang 22 with ``-Os``, and finds the same bytes)::

    struct object *place(struct object *self, const struct object *const *one, long count) {
      const struct table *const t = table;
      word words[96], *to = words;                   // where the memory of up to 32 tensors is, as `bytes`
      if (count > 32) return t->as_number(0);
      for (; count; count--, one++, to += 3) {
        const void *const *tensor = (const void *const *)((const char *)*one + t->at);
        if ((*one)->type != t->tensor && (*one)->type != t->parameter) return t->as_number(0);
        if (!*tensor || *(const void *const *)*tensor != t->plain) return t->as_number(0);
        if (t->address(tensor, to) || t->offset(tensor, to + 1) || t->bytes(tensor, to + 2)) return t->as_number(0);
      }
      return t->as_bytes(words, (char *)to - (char *)words);
    }

    struct object *run(struct object *self, const struct object *const *made, long count) {
      const struct table *const t = table;
      const word *said = t->text(self), *end = said + said[0];      // words; the place of addresses that are made; call
      word *space = t->space, *to = space + said[1];                // a workspace of `workgroups.py`
      for (word *at = space + 6; said != end; said++) *at++ = said[2];
      for (; count; count--) *to++ = t->number(*made++);
      t->body(space);
      return t->as_number(((int *)space)[18]);                      // the status of a workgroup that failed, or 0
    }

``table``, the first word of the code, is where a table is; `TABLE` are its members in order.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_X86_64: Final = bytes.fromhex(
    "0000000000000000"  # table
    # place
    "f30f1efa"  #   8: endbr64
    "55"  #   c: push rbp
    "4157"  #   d: push r15
    "4156"  #   f: push r14
    "4155"  #  11: push r13
    "4154"  #  13: push r12
    "53"  #  15: push rbx
    "4881ec18030000"  #  16: sub rsp,0x318
    "4889742408"  #  1d: mov [rsp+0x8],rsi
    "488b0dd7ffffff"  #  22: mov rcx,[rip-0x29]
    "4883fa20"  #  29: cmp rdx,0x20
    "7e16"  #  2d: jle 0x45
    "31ff"  #  2f: xor edi,edi
    "4881c418030000"  #  31: add rsp,0x318
    "5b"  #  38: pop rbx
    "415c"  #  39: pop r12
    "415d"  #  3b: pop r13
    "415e"  #  3d: pop r14
    "415f"  #  3f: pop r15
    "5d"  #  41: pop rbp
    "ff6140"  #  42: jmp [rcx+0x40]
    "4989d6"  #  45: mov r14,rdx
    "488d7c2410"  #  48: lea rdi,[rsp+0x10]
    "4989fc"  #  4d: mov r12,rdi
    "4885d2"  #  50: test rdx,rdx
    "0f8488000000"  #  53: je 0xe1
    "488d6c2410"  #  59: lea rbp,[rsp+0x10]
    "31db"  #  5e: xor ebx,ebx
    "4989ec"  #  60: mov r12,rbp
    "488b442408"  #  63: mov rax,[rsp+0x8]
    "488b04d8"  #  68: mov rax,[rax+8*rbx]
    "4c8b6918"  #  6c: mov r13,[rcx+0x18]
    "4901c5"  #  70: add r13,rax
    "488b4008"  #  73: mov rax,[rax+0x8]
    "483b01"  #  77: cmp rax,[rcx]
    "7406"  #  7a: je 0x82
    "483b4108"  #  7c: cmp rax,[rcx+0x8]
    "7572"  #  80: jne 0xf4
    "498b4500"  #  82: mov rax,[r13]
    "4885c0"  #  86: test rax,rax
    "7469"  #  89: je 0xf4
    "488b00"  #  8b: mov rax,[rax]
    "483b4110"  #  8e: cmp rax,[rcx+0x10]
    "7560"  #  92: jne 0xf4
    "4c89ef"  #  94: mov rdi,r13
    "4c89e6"  #  97: mov rsi,r12
    "4989cf"  #  9a: mov r15,rcx
    "ff5120"  #  9d: call [rcx+0x20]
    "85c0"  #  a0: test eax,eax
    "7548"  #  a2: jne 0xec
    "498d6c2408"  #  a4: lea rbp,[r12+0x8]
    "4c89ef"  #  a9: mov rdi,r13
    "4889ee"  #  ac: mov rsi,rbp
    "41ff5728"  #  af: call [r15+0x28]
    "85c0"  #  b3: test eax,eax
    "7535"  #  b5: jne 0xec
    "4883c508"  #  b7: add rbp,0x8
    "4c89ef"  #  bb: mov rdi,r13
    "4889ee"  #  be: mov rsi,rbp
    "41ff5730"  #  c1: call [r15+0x30]
    "85c0"  #  c5: test eax,eax
    "7523"  #  c7: jne 0xec
    "48ffc3"  #  c9: inc rbx
    "4883c508"  #  cc: add rbp,0x8
    "4939de"  #  d0: cmp r14,rbx
    "4c89f9"  #  d3: mov rcx,r15
    "7588"  #  d6: jne 0x60
    "4983c418"  #  d8: add r12,0x18
    "488d7c2410"  #  dc: lea rdi,[rsp+0x10]
    "4929fc"  #  e1: sub r12,rdi
    "4c89e6"  #  e4: mov rsi,r12
    "ff5138"  #  e7: call [rcx+0x38]
    "eb0d"  #  ea: jmp 0xf9
    "31ff"  #  ec: xor edi,edi
    "41ff5740"  #  ee: call [r15+0x40]
    "eb05"  #  f2: jmp 0xf9
    "31ff"  #  f4: xor edi,edi
    "ff5140"  #  f6: call [rcx+0x40]
    "4881c418030000"  #  f9: add rsp,0x318
    "5b"  # 100: pop rbx
    "415c"  # 101: pop r12
    "415d"  # 103: pop r13
    "415e"  # 105: pop r14
    "415f"  # 107: pop r15
    "5d"  # 109: pop rbp
    "c3"  # 10a: ret
    # run
    "f30f1efa"  # 10b: endbr64
    "55"  # 10f: push rbp
    "4157"  # 110: push r15
    "4156"  # 112: push r14
    "4155"  # 114: push r13
    "4154"  # 116: push r12
    "53"  # 118: push rbx
    "50"  # 119: push rax
    "4889d3"  # 11a: mov rbx,rdx
    "4989f6"  # 11d: mov r14,rsi
    "4c8b3dd9feffff"  # 120: mov r15,[rip-0x127]
    "41ff5748"  # 127: call [r15+0x48]
    "4d89f8"  # 12b: mov r8,r15
    "488b10"  # 12e: mov rdx,[rax]
    "488b4808"  # 131: mov rcx,[rax+0x8]
    "4d8b7f60"  # 135: mov r15,[r15+0x60]
    "4885d2"  # 139: test rdx,rdx
    "7419"  # 13c: je 0x157
    "48c1e203"  # 13e: shl rdx,0x3
    "31f6"  # 142: xor esi,esi
    "488b7c3010"  # 144: mov rdi,[rax+rsi+0x10]
    "49897c3730"  # 149: mov [r15+rsi+0x30],rdi
    "4883c608"  # 14e: add rsi,0x8
    "4839f2"  # 152: cmp rdx,rsi
    "75ed"  # 155: jne 0x144
    "4885db"  # 157: test rbx,rbx
    "7421"  # 15a: je 0x17d
    "4d8d24cf"  # 15c: lea r12,[r15+8*rcx]
    "4531ed"  # 160: xor r13d,r13d
    "4b8b3cee"  # 163: mov rdi,[r14+8*r13]
    "4c89c5"  # 167: mov rbp,r8
    "41ff5050"  # 16a: call [r8+0x50]
    "4989e8"  # 16e: mov r8,rbp
    "4b8904ec"  # 171: mov [r12+8*r13],rax
    "49ffc5"  # 175: inc r13
    "4c39eb"  # 178: cmp rbx,r13
    "75e6"  # 17b: jne 0x163
    "4c89ff"  # 17d: mov rdi,r15
    "4c89c3"  # 180: mov rbx,r8
    "41ff5058"  # 183: call [r8+0x58]
    "49637f48"  # 187: movsxd rdi,[r15+0x48]
    "4889d8"  # 18b: mov rax,rbx
    "4883c408"  # 18e: add rsp,0x8
    "5b"  # 192: pop rbx
    "415c"  # 193: pop r12
    "415d"  # 195: pop r13
    "415e"  # 197: pop r14
    "415f"  # 199: pop r15
    "5d"  # 19b: pop rbp
    "ff6040"  # 19c: jmp [rax+0x40]
)

_AARCH64: Final = bytes.fromhex(
    "0000000000000000"  # table
    # place
    "5f2403d5"  #   8: bti c
    "fd7bbba9"  #   c: stp x29,x30,[sp,#-0x50]!
    "fa6701a9"  #  10: stp x26,x25,[sp,#0x10]
    "f85f02a9"  #  14: stp x24,x23,[sp,#0x20]
    "f65703a9"  #  18: stp x22,x21,[sp,#0x30]
    "f44f04a9"  #  1c: stp x20,x19,[sp,#0x40]
    "ff030cd1"  #  20: sub sp,sp,#0x300
    "f7feff58"  #  24: ldr x23,0x0
    "5f8000f1"  #  28: cmp x2,#0x20
    "4d010054"  #  2c: b.le 0x54
    "f02240f9"  #  30: ldr x16,[x23,#0x40]
    "e0031faa"  #  34: mov x0,xzr
    "ff030c91"  #  38: add sp,sp,#0x300
    "f44f44a9"  #  3c: ldp x20,x19,[sp,#0x40]
    "f65743a9"  #  40: ldp x22,x21,[sp,#0x30]
    "f85f42a9"  #  44: ldp x24,x23,[sp,#0x20]
    "fa6741a9"  #  48: ldp x26,x25,[sp,#0x10]
    "fd7bc5a8"  #  4c: ldp x29,x30,[sp],#0x50
    "00021fd6"  #  50: br x16
    "f30302aa"  #  54: mov x19,x2
    "f8030091"  #  58: mov x24,sp
    "c20500b4"  #  5c: cbz x2,0x114
    "f40301aa"  #  60: mov x20,x1
    "e8030091"  #  64: mov x8,sp
    "990240f9"  #  68: ldr x25,[x20]
    "ea0240f9"  #  6c: ldr x10,[x23]
    "f50308aa"  #  70: mov x21,x8
    "fa0e40f9"  #  74: ldr x26,[x23,#0x18]
    "290740f9"  #  78: ldr x9,[x25,#0x8]
    "3f010aeb"  #  7c: cmp x9,x10
    "80000054"  #  80: b.eq 0x90
    "e80640f9"  #  84: ldr x8,[x23,#0x8]
    "3f0108eb"  #  88: cmp x9,x8
    "c1030054"  #  8c: b.ne 0x104
    "286b7af8"  #  90: ldr x8,[x25,x26]
    "880300b4"  #  94: cbz x8,0x104
    "080140f9"  #  98: ldr x8,[x8]
    "e90a40f9"  #  9c: ldr x9,[x23,#0x10]
    "1f0109eb"  #  a0: cmp x8,x9
    "01030054"  #  a4: b.ne 0x104
    "e81240f9"  #  a8: ldr x8,[x23,#0x20]
    "20031a8b"  #  ac: add x0,x25,x26
    "e10315aa"  #  b0: mov x1,x21
    "00013fd6"  #  b4: blr x8
    "60020035"  #  b8: cbnz w0,0x104
    "e81640f9"  #  bc: ldr x8,[x23,#0x28]
    "20031a8b"  #  c0: add x0,x25,x26
    "a1220091"  #  c4: add x1,x21,#0x8
    "b6220091"  #  c8: add x22,x21,#0x8
    "00013fd6"  #  cc: blr x8
    "a0010035"  #  d0: cbnz w0,0x104
    "e81a40f9"  #  d4: ldr x8,[x23,#0x30]
    "d6220091"  #  d8: add x22,x22,#0x8
    "20031a8b"  #  dc: add x0,x25,x26
    "e10316aa"  #  e0: mov x1,x22
    "00013fd6"  #  e4: blr x8
    "e0000035"  #  e8: cbnz w0,0x104
    "730600f1"  #  ec: subs x19,x19,#0x1
    "94220091"  #  f0: add x20,x20,#0x8
    "c8220091"  #  f4: add x8,x22,#0x8
    "81fbff54"  #  f8: b.ne 0x68
    "a8620091"  #  fc: add x8,x21,#0x18
    "06000014"  # 100: b 0x118
    "e82240f9"  # 104: ldr x8,[x23,#0x40]
    "e0031faa"  # 108: mov x0,xzr
    "00013fd6"  # 10c: blr x8
    "06000014"  # 110: b 0x128
    "e8030091"  # 114: mov x8,sp
    "e91e40f9"  # 118: ldr x9,[x23,#0x38]
    "010118cb"  # 11c: sub x1,x8,x24
    "e0030091"  # 120: mov x0,sp
    "20013fd6"  # 124: blr x9
    "ff030c91"  # 128: add sp,sp,#0x300
    "f44f44a9"  # 12c: ldp x20,x19,[sp,#0x40]
    "f65743a9"  # 130: ldp x22,x21,[sp,#0x30]
    "f85f42a9"  # 134: ldp x24,x23,[sp,#0x20]
    "fa6741a9"  # 138: ldp x26,x25,[sp,#0x10]
    "fd7bc5a8"  # 13c: ldp x29,x30,[sp],#0x50
    "c0035fd6"  # 140: ret
    # run
    "5f2403d5"  # 144: bti c
    "fe5fbda9"  # 148: stp x30,x23,[sp,#-0x30]!
    "f65701a9"  # 14c: stp x22,x21,[sp,#0x10]
    "96f5ff58"  # 150: ldr x22,0x0
    "f44f02a9"  # 154: stp x20,x19,[sp,#0x20]
    "f30302aa"  # 158: mov x19,x2
    "f40301aa"  # 15c: mov x20,x1
    "c82640f9"  # 160: ldr x8,[x22,#0x48]
    "00013fd6"  # 164: blr x8
    "092040a9"  # 168: ldp x9,x8,[x0]
    "d53240f9"  # 16c: ldr x21,[x22,#0x60]
    "090100b4"  # 170: cbz x9,0x190
    "29f17dd3"  # 174: lsl x9,x9,#3
    "aac20091"  # 178: add x10,x21,#0x30
    "0b400091"  # 17c: add x11,x0,#0x10
    "6c8540f8"  # 180: ldr x12,[x11],#0x8
    "292100f1"  # 184: subs x9,x9,#0x8
    "4c8500f8"  # 188: str x12,[x10],#0x8
    "a1ffff54"  # 18c: b.ne 0x180
    "130100b4"  # 190: cbz x19,0x1b0
    "b70e088b"  # 194: add x23,x21,x8,lsl #3
    "c82a40f9"  # 198: ldr x8,[x22,#0x50]
    "808640f8"  # 19c: ldr x0,[x20],#0x8
    "00013fd6"  # 1a0: blr x8
    "730600f1"  # 1a4: subs x19,x19,#0x1
    "e08600f8"  # 1a8: str x0,[x23],#0x8
    "61ffff54"  # 1ac: b.ne 0x198
    "c82e40f9"  # 1b0: ldr x8,[x22,#0x58]
    "e00315aa"  # 1b4: mov x0,x21
    "00013fd6"  # 1b8: blr x8
    "a04a80b9"  # 1bc: ldrsw x0,[x21,#0x48]
    "d02240f9"  # 1c0: ldr x16,[x22,#0x40]
    "f44f42a9"  # 1c4: ldp x20,x19,[sp,#0x20]
    "f65741a9"  # 1c8: ldp x22,x21,[sp,#0x10]
    "fe5fc3a8"  # 1cc: ldp x30,x23,[sp],#0x30
    "00021fd6"  # 1d0: br x16
)

# fmt: off
TABLE: Final = (
    "tensor", "parameter", "plain", "at", "address", "offset", "bytes", "as_bytes", "as_number", "text", "number",
    "body", "space",
)
# fmt: on
"""``tensor``, ``parameter``: classes; ``plain``: the word that torch's own objects of such tensors begin with; ``at``:
bytes of a Python object in front of the place of torch's."""


class DirectCode(NamedTuple):
    """Functions that refer to nothing but the table in front of them."""

    code: bytes
    place: int
    """Where each begins."""
    run: int


CODE: Final = {"x86_64": DirectCode(_X86_64, 0x8, 0x10B), "aarch64": DirectCode(_AARCH64, 0x8, 0x144)}
"""By architecture."""
