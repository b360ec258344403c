// Opcodes of WebAssembly 2.0 (core specification, section 5.4 and its appendix of instructions).
const opcodes = {
  loop: [0x03, 0x40],
  end: [0x0b],
  branchIf: [0x0d, 0],
  i32Const: [0x41],
  i32LessUnsigned: [0x49],
  i32Add: [0x6a],
  v128Load: [0xfd, 0x00],
  i64x2Splat: [0xfd, 0x12],
  v128And: [0xfd, 0x4e],
  v128Or: [0xfd, 0x50],
  v128AnyTrue: [0xfd, 0x53],
  i32x4Add: [0xfd, 0xae, 0x01],
} as const;
const types = { i32: 0x7f, i64: 0x7e, v128: 0x7b } as const;
// Parameters, then locals.
const variables = { numBytes: 0, mask: 1, addend: 2, sign: 3, offset: 4, masks: 5, addends: 6, found: 7 };

const get = (name: keyof typeof variables): number[] => [0x20, variables[name]];
const set = (name: keyof typeof variables): number[] => [0x21, variables[name]];
const text = (value: string): number[] => [value.length, ...Buffer.from(value)];
// Prefixes bytes with their length in LEB128. All lengths are below 128, except the length of the code, which
// takes two bytes.
const sized = (bytes: readonly number[]): number[] => [
  ...(bytes.length < 128 ? [bytes.length] : [(bytes.length % 128) + 128, bytes.length >> 7]),
  ...bytes,
];
const section = (id: number, bytes: readonly number[]): number[] => [id, ...sized(bytes)];

/**
 * Returns WebAssembly code that loads the 16 bytes at `offset + start`, computes `(bytes & mask) + addend`,
 * and pushes the result onto the stack.
 */
function vectorAt(start: number): number[] {
  const { v128Load, v128And, i32x4Add } = opcodes;
  // 4: aligned to 2^4 bytes
  const load = [...get('offset'), ...v128Load, 4, start];
  return [...load, ...get('masks'), ...v128And, ...get('addends'), ...i32x4Add];
}

function scanBody(): number[] {
  const { i64x2Splat, v128Or, v128And, v128AnyTrue } = opcodes;
  return [
    ...[...get('mask'), ...i64x2Splat, ...set('masks')],
    ...[...get('addend'), ...i64x2Splat, ...set('addends')],
    ...opcodes.loop,
    ...vectorAt(0),
    ...[16, 32, 48].flatMap((start) => [...vectorAt(start), ...v128Or]),
    ...[...get('found'), ...v128Or, ...set('found')],
    // 64 as signed LEB128
    ...[...get('offset'), ...opcodes.i32Const, 0xc0, 0x00, ...opcodes.i32Add, ...set('offset')],
    ...[...get('offset'), ...get('numBytes'), ...opcodes.i32LessUnsigned, ...opcodes.branchIf],
    ...opcodes.end,
    ...[...get('found'), ...get('sign'), ...i64x2Splat, ...v128And, ...v128AnyTrue],
    ...opcodes.end,
  ];
}

/**
 * Returns the bytes of a WebAssembly module with one page of memory (64 KiB), exported as `memory`, and the
 * function
 *
 *     scan(numBytes: i32, mask: i64, addend: i64, sign: i64) -> i32
 *
 * The function returns 1 if `((lanes & mask) + addend) & sign` is not 0 for at least one group of 8 bytes
 * within the first `numBytes` bytes, a positive multiple of 64. The addition is in 32-bit lanes. A JavaScript
 * loop over a typed array would take as long as a CRC-32 of the bytes; the function is ten times as fast,
 * because it uses vector instructions, which JavaScript does not have.
 */
export function scanLanesModule(): Uint8Array<ArrayBuffer> {
  const { i32, i64, v128 } = types;
  const locals = [2, 1, i32, 3, v128];
  return Uint8Array.from([
    ...[0x00, ...Buffer.from('asm'), 1, 0, 0, 0],
    ...section(1, [1, 0x60, 4, i32, i64, i64, i64, 1, i32]),
    ...section(3, [1, 0]),
    // memory limits: a minimum and a maximum of one page
    ...section(5, [1, 1, 1, 1]),
    ...section(7, [2, ...text('memory'), 2, 0, ...text('scan'), 0, 0]),
    ...section(10, [1, ...sized([...locals, ...scanBody()])]),
  ]);
}
