"""An architecture goes in; the machine code that a thread runs workgroups with comes out, which no compiler made.

``void body(workspace *)``: a thread switches to its own stack of the workspace, and takes workgroups as long as there
are some.  On the stack is the ``workgroup_state`` of IREE: x, y, z, the number of the thread, its memory, bytes of
that.  ``int zero(void)`` is the number of the only thread.
"""

from __future__ import annotations

from typing import Final

_X86_64: Final = bytes.fromhex(
    "f30f1efa"  #  0: endbr64
    "55"  #  4: push rbp
    "53"  #  5: push rbx
    "4154"  #  6: push r12
    "4889e5"  #  8: mov rbp,rsp
    "4883e4f0"  #  b: and rsp,-0x10
    "4889fb"  #  f: mov rbx,rdi
    "ff5330"  # 12: call [rbx+0x30]
    "89c0"  # 15: mov eax,eax
    "483b4328"  # 17: cmp rax,[rbx+0x28]
    "0f838c000000"  # 1b: jae 0xad
    "4989c4"  # 21: mov r12,rax
    "48ffc0"  # 24: inc rax
    "480faf4318"  # 27: imul rax,[rbx+0x18]
    "48034310"  # 2c: add rax,[rbx+0x10]
    "488d60c0"  # 30: lea rsp,[rax - 0x40]
    "48c744240800000000"  # 34: mov [rsp+0x8],0x0
    "448964240c"  # 3d: mov [rsp+0xc],r12d
    "4c0fafa390000000"  # 42: imul r12,[rbx+0x90]
    "4c036320"  # 4a: add r12,[rbx+0x20]
    "4c89642410"  # 4e: mov [rsp+0x10],r12
    "488b8390000000"  # 53: mov rax,[rbx+0x90]
    "89442418"  # 5a: mov [rsp+0x18],eax
    "b801000000"  # 5e: mov eax,0x1
    "f0480fc14340"  # 63: lock xadd [rbx+0x40],rax
    "483b8380000000"  # 69: cmp rax,[rbx+0x80]
    "733b"  # 70: jae 0xad
    "31d2"  # 72: xor edx,edx
    "8b8b98000000"  # 74: mov ecx,[rbx+0x98]
    "48f7f1"  # 7a: div rcx
    "891424"  # 7d: mov [rsp],edx
    "31d2"  # 80: xor edx,edx
    "8b8b9c000000"  # 82: mov ecx,[rbx+0x9c]
    "48f7f1"  # 88: div rcx
    "89542404"  # 8b: mov [rsp+0x4],edx
    "6689442408"  # 8f: mov [rsp+0x8],ax
    "488b3b"  # 94: mov rdi,[rbx]
    "488b7308"  # 97: mov rsi,[rbx+0x8]
    "4889e2"  # 9b: mov rdx,rsp
    "ff9388000000"  # 9e: call [rbx+0x88]
    "85c0"  # a4: test eax,eax
    "74b6"  # a6: je 0x5e
    "894348"  # a8: mov [rbx+0x48],eax
    "ebb1"  # ab: jmp 0x5e
    "4889ec"  # ad: mov rsp,rbp
    "415c"  # b0: pop r12
    "5b"  # b2: pop rbx
    "5d"  # b3: pop rbp
    "c3"  # b4: ret
)
_X86_64_ZERO: Final = bytes.fromhex("31c0c3")  # xor eax,eax; ret

# The next workgroup is taken by instructions that every aarch64 has; those of 8.1 would be one in place of four.
_AARCH64: Final = bytes.fromhex(
    "5f2403d5"  #  0: bti c
    "fd7bbea9"  #  4: stp x29,x30,[sp,#-0x20]!
    "fd030091"  #  8: mov x29,sp
    "f35301a9"  #  c: stp x19,x20,[sp,#0x10]
    "f30300aa"  # 10: mov x19,x0
    "691a40f9"  # 14: ldr x9,[x19,#0x30]
    "20013fd6"  # 18: blr x9
    "e003002a"  # 1c: mov w0,w0
    "611640f9"  # 20: ldr x1,[x19,#0x28]
    "1f0001eb"  # 24: cmp x0,x1
    "62040054"  # 28: b.hs 0xb4
    "f40300aa"  # 2c: mov x20,x0
    "00040091"  # 30: add x0,x0,#0x1
    "610a41a9"  # 34: ldp x1,x2,[x19,#0x10]
    "0004029b"  # 38: madd x0,x0,x2,x1
    "1f0001d1"  # 3c: sub sp,x0,#0x40
    "ff0700f9"  # 40: str xzr,[sp,#0x8]
    "f40f00b9"  # 44: str w20,[sp,#0xc]
    "611240f9"  # 48: ldr x1,[x19,#0x20]
    "624a40f9"  # 4c: ldr x2,[x19,#0x90]
    "8106029b"  # 50: madd x1,x20,x2,x1
    "e10b00f9"  # 54: str x1,[sp,#0x10]
    "e21b00b9"  # 58: str w2,[sp,#0x18]
    "74020191"  # 5c: add x20,x19,#0x40
    "807e5fc8"  # 60: ldxr x0,[x20]
    "01040091"  # 64: add x1,x0,#0x1
    "817e02c8"  # 68: stxr w2,x1,[x20]
    "a2ffff35"  # 6c: cbnz w2,0x60
    "614240f9"  # 70: ldr x1,[x19,#0x80]
    "1f0001eb"  # 74: cmp x0,x1
    "e2010054"  # 78: b.hs 0xb4
    "610a5329"  # 7c: ldp w1,w2,[x19,#0x98]
    "0308c19a"  # 80: udiv x3,x0,x1
    "6480019b"  # 84: msub x4,x3,x1,x0
    "6508c29a"  # 88: udiv x5,x3,x2
    "a68c029b"  # 8c: msub x6,x5,x2,x3
    "e41b0029"  # 90: stp w4,w6,[sp]
    "e5130079"  # 94: strh w5,[sp,#0x8]
    "600640a9"  # 98: ldp x0,x1,[x19]
    "e2030091"  # 9c: mov x2,sp
    "694640f9"  # a0: ldr x9,[x19,#0x88]
    "20013fd6"  # a4: blr x9
    "c0fdff34"  # a8: cbz w0,0x60
    "604a00b9"  # ac: str w0,[x19,#0x48]
    "ecffff17"  # b0: b 0x60
    "bf030091"  # b4: mov sp,x29
    "f35341a9"  # b8: ldp x19,x20,[sp,#0x10]
    "fd7bc2a8"  # bc: ldp x29,x30,[sp],#0x20
    "c0035fd6"  # c0: ret
)
_AARCH64_ZERO: Final = bytes.fromhex("00008052c0035fd6")  # mov w0,#0; ret

BODIES: Final = {"x86_64": (_X86_64, _X86_64_ZERO), "aarch64": (_AARCH64, _AARCH64_ZERO)}
"""By architecture: ``body`` and ``zero``."""
