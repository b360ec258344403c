import { CheckpointError } from '@mtl/errors';
import type { Dtype, Slice, ValueLimit } from '@mtl/layout';
import { dtypeBytes } from './dtype.js';
import { scanLanesModule } from './scan-lanes-module.js';

/** The values that a tensor may have, and the wording of the error for a refused value. */
export interface ValueCheck {
  /** The tensor's location, worded for an error message, such as `iteration 12` or a file's path. */
  readonly place: string;
  readonly name: string;
  /** The checked box within the tensor: a slice of each dimension. */
  readonly slices: readonly Slice[];
  /** F32 only: the smallest magnitude that is refused, and the reason. Default: infinity. */
  readonly limit?: ValueLimit | undefined;
  /**
   * The consequence of a refused value, worded for an error message, such as `the checkpoint was not
   * published`.
   */
  readonly outcome?: string;
  readonly remedy: string;
  /** The exit code; 2 for wrong input. Default: 1. */
  readonly exitCode?: 1 | 2;
}

/** Returns the error for a refused value in a tensor. */
export function notFinite(
  { place, name, slices, limit, outcome, remedy, exitCode = 1 }: ValueCheck,
  { index, value }: FoundValue,
): CheckpointError {
  const position: number[] = [];
  let rest = index;
  for (const { start, end } of slices.toReversed()) {
    position.unshift(start + (rest % (end - start)));
    rest = Math.floor(rest / (end - start));
  }
  const what = Number.isFinite(value) && limit !== undefined ? `${value}, ${limit.why}` : String(value);
  const then = outcome === undefined ? '' : `; ${outcome}`;
  return new CheckpointError(
    'MTL_NOT_FINITE',
    `${place}: ${name}[${position.join(', ')}] is ${what}${then}`,
    { remedy, exitCode, details: { name, position, value } },
  );
}

/**
 * Checks the values of a tensor in memory.
 *
 * @param bytes the row-major bytes of the box `check.slices`, or a section that starts at element
 *   `first` (default 0)
 * @throws CheckpointError MTL_NOT_FINITE
 */
export function checkValues(
  bytes: Uint8Array,
  { dtype, check, first = 0 }: { readonly dtype: Dtype; readonly check: ValueCheck; readonly first?: number },
): void {
  const scan = new ValueScan(dtype, check.limit?.magnitude);
  scan.update(bytes);
  if (scan.found === undefined) return;
  const { index, value } = scan.found;
  throw notFinite(check, { index: index + first, value });
}

/**
 * The number of bytes to scan at a time: few enough that they are still in the cache, because the checksum
 * has just read them.
 */
export const scanPartBytes = 64 * 1024;

/** A refused value. */
interface FoundValue {
  /** The index of the element, counted from the start of the scan. */
  readonly index: number;
  readonly value: number;
}

/**
 * The memory format of a floating-point dtype: its size, and the bits of the smallest magnitude that is not
 * finite.
 */
interface FloatFormat {
  readonly bytes: 1 | 2 | 4 | 8;
  readonly infinity: bigint;
}

const formats: Partial<Record<Dtype, FloatFormat>> = {
  F64: { bytes: 8, infinity: 0x7ff0_0000_0000_0000n },
  F32: { bytes: 4, infinity: 0x7f80_0000n },
  // real and imaginary part
  C64: { bytes: 4, infinity: 0x7f80_0000n },
  BF16: { bytes: 2, infinity: 0x7f80n },
  F16: { bytes: 2, infinity: 0x7c00n },
  F8_E5M2: { bytes: 1, infinity: 0x7cn },
  // this dtype has no infinity, and its largest magnitude is NaN
  F8_E4M3: { bytes: 1, infinity: 0x7fn },
};

type Scan = (numBytes: number, mask: bigint, addend: bigint, sign: bigint) => number;
/** The WebAssembly functions that this file uses. Node's types do not declare them. */
interface WithWebAssembly {
  readonly WebAssembly: {
    readonly Module: new (bytes: Uint8Array) => object;
    readonly Instance: new (
      module: object,
    ) => {
      readonly exports: { readonly memory: { readonly buffer: ArrayBuffer }; readonly scan: Scan };
    };
  };
}

let scanner: { readonly memory: Uint8Array; readonly scan: Scan } | undefined;

function openScanner(): NonNullable<typeof scanner> {
  if (scanner !== undefined) return scanner;
  const { Instance, Module } = (globalThis as unknown as WithWebAssembly).WebAssembly;
  const { memory, scan } = new Instance(new Module(scanLanesModule())).exports;
  scanner = { memory: new Uint8Array(memory.buffer), scan };
  return scanner;
}

/** Repeats a `bytes`-byte value until it fills 8 bytes. */
function repeated(value: bigint, bytes: number): bigint {
  let lanes = value;
  for (let width = bytes; width < 8; width *= 2) lanes |= lanes << BigInt(8 * width);
  return BigInt.asIntN(64, lanes);
}

const bitsOfFloat32 = (value: number): bigint => BigInt(new Uint32Array(Float32Array.of(value).buffer)[0]!);

/**
 * Finds NaN and infinite values in the bytes of a tensor, which are passed in consecutive sections. It
 * detects all such values in every floating-point dtype except F8_E8M0, the dtype of scales. Integers are
 * always finite.
 */
export class ValueScan {
  readonly #dtype: Dtype;
  readonly #format: FloatFormat | undefined;
  /** The bits of the smallest magnitude that is refused. */
  readonly #refused: bigint;
  readonly #lanes: readonly [mask: bigint, addend: bigint, sign: bigint];
  #numBytes = 0;
  #found: FoundValue | undefined;

  /** @param limit for F32: the smallest magnitude that is refused; default: infinity */
  constructor(dtype: Dtype, limit = Number.POSITIVE_INFINITY) {
    this.#dtype = dtype;
    this.#format = formats[dtype];
    const { bytes, infinity } = this.#format ?? { bytes: 8, infinity: 0n };
    this.#refused = dtype === 'F32' ? bitsOfFloat32(limit) : infinity;
    // adding `sign - refused` to a magnitude carries into the sign bit if, and only if, the magnitude is
    // refused
    const sign = 1n << BigInt(8 * bytes - 1);
    this.#lanes = [repeated(sign - 1n, bytes), repeated(sign - this.#refused, bytes), repeated(sign, bytes)];
  }

  /** The first refused value. */
  get found(): FoundValue | undefined {
    return this.#found;
  }

  /** Scans the next bytes, which must consist of complete elements. */
  update(bytes: Uint8Array): void {
    if (this.#format === undefined || this.#found !== undefined) return;
    const { memory, scan } = openScanner();
    for (let start = 0; start < bytes.length; start += scanPartBytes) {
      const part = bytes.subarray(start, start + scanPartBytes);
      const padded = Math.ceil(part.length / 64) * 64;
      memory.set(part);
      memory.fill(0, part.length, padded);
      if (scan(padded, ...this.#lanes) === 1) {
        this.#found = this.#locate(part, this.#numBytes + start);
        return;
      }
    }
    this.#numBytes += bytes.length;
  }

  /** Returns the first rejected value of `part`, which must contain a rejected value. */
  #locate(part: Uint8Array, before: number): FoundValue {
    const { bytes, infinity } = this.#format!;
    const view = new DataView(part.buffer, part.byteOffset, part.length);
    const sign = 1n << BigInt(8 * bytes - 1);
    let at = 0;
    while ((bitsAt(view, at, bytes) & (sign - 1n)) < this.#refused) at += bytes;
    const bits = bitsAt(view, at, bytes);
    const magnitude = bits & (sign - 1n);
    const isNumber = magnitude < infinity;
    const isInfinite = magnitude === infinity && this.#dtype !== 'F8_E4M3';
    const size = isInfinite ? Number.POSITIVE_INFINITY : Number.NaN;
    return {
      index: Math.floor((before + at) / dtypeBytes[this.#dtype]),
      value: isNumber ? view.getFloat32(at, true) : bits === magnitude ? size : -size,
    };
  }
}

function bitsAt(view: DataView, at: number, bytes: FloatFormat['bytes']): bigint {
  if (bytes === 8) return view.getBigUint64(at, true);
  if (bytes === 4) return BigInt(view.getUint32(at, true));
  return BigInt(bytes === 2 ? view.getUint16(at, true) : view.getUint8(at));
}
