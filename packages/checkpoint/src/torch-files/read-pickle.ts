/** A class or function that a pickle names. It is never imported or called. */
export class PickledGlobal {
  readonly module: string;
  readonly name: string;

  constructor(module: string, name: string) {
    this.module = module;
    this.name = name;
  }

  /** The full name, such as `torch.float32`. */
  get path(): string {
    return `${this.module}.${this.name}`;
  }
}

/**
 * Describes an object that a pickle would create by calling a class or function: the name of the called class
 * or function, its arguments, and the object's state.
 */
export class PickledObject {
  /** The full name of the class or function; empty if the pickle computes the callee. */
  readonly path: string;
  readonly parameters: readonly unknown[];
  /** The attributes of the instance, usually a Map keyed by name. */
  state: unknown = undefined;

  constructor(path: string, parameters: readonly unknown[]) {
    this.path = path;
    this.parameters = parameters;
  }

  /** Returns an attribute of the state. */
  attribute(name: string): unknown {
    return this.state instanceof Map ? this.state.get(name) : undefined;
  }
}

/**
 * Functions that replace calls in the pickle, keyed by the full name of the callee. All other calls become
 * opaque objects. The functions are pure, and belong to this package.
 */
export type PickleConstructors = ReadonlyMap<string, (parameters: readonly unknown[]) => unknown>;

export interface ReadPickleOptions {
  readonly constructors: PickleConstructors;
  /** Returns the value for a persistent identifier, which represents an object outside of the pickle. */
  persistent(identifier: unknown): unknown;
  /** Returns the error about bytes that are not a valid pickle. */
  invalid(problem: string): Error;
}

/**
 * Reads pickle protocols 2 to 5 as data. The reader imports nothing and calls only `constructors`. Lists and
 * tuples become arrays, dictionaries become Maps, and calls become a {@link PickledObject}. The reader does
 * not recurse, and its memory is proportional to the number of bytes.
 *
 * @throws the error that `invalid` returns
 */
export function readPickle(bytes: Buffer, options: ReadPickleOptions): unknown {
  return new PickleReader(bytes, options).read();
}

/**
 * Reads `count` consecutive pickles.
 *
 * @returns the values, and the offset at which the last pickle ends
 * @throws the error that `invalid` returns
 */
export function readPickles(
  bytes: Buffer,
  { count, ...options }: ReadPickleOptions & { readonly count: number },
): { readonly values: readonly unknown[]; readonly end: number } {
  const values: unknown[] = [];
  let end = 0;
  for (let index = 0; index < count; index++) {
    const reader = new PickleReader(bytes.subarray(end), options);
    values.push(reader.read());
    end += reader.position;
  }
  return { values, end };
}

/** The maximum size of an integer, in bytes: a larger integer cannot be a size. */
const maxIntegerBytes = 1024;

class PickleReader {
  readonly #bytes: Buffer;
  readonly #options: ReadPickleOptions;
  position = 0;
  readonly stack: unknown[] = [];
  /** The stack heights at the open marks. */
  readonly marks: number[] = [];
  readonly memo = new Map<number, unknown>();

  constructor(bytes: Buffer, options: ReadPickleOptions) {
    this.#bytes = bytes;
    this.#options = options;
  }

  read(): unknown {
    for (;;) {
      const opcode = this.take(1)[0]!;
      if (opcode === stop) return this.pop();
      const operation = operations.get(opcode);
      if (operation === undefined) {
        throw this.invalid(`its pickle has the operation 0x${opcode.toString(16)}, which is not read`);
      }
      operation(this);
    }
  }

  invalid(problem: string): Error {
    return this.#options.invalid(problem);
  }

  take(length: number): Buffer {
    const end = this.position + length;
    if (!(end <= this.#bytes.length)) throw this.invalid('its pickle ends too early');
    const taken = this.#bytes.subarray(this.position, end);
    this.position = end;
    return taken;
  }

  /** Reads a length field of 1, 4 or 8 bytes, then this number of bytes. */
  takeCounted(lengthBytes: 1 | 4 | 8): Buffer {
    const length = this.take(lengthBytes);
    return this.take(
      lengthBytes === 8 ? Number(length.readBigUInt64LE()) : length.readUIntLE(0, lengthBytes),
    );
  }

  line(): string {
    const end = this.#bytes.indexOf(0x0a, this.position);
    if (end < 0) throw this.invalid('its pickle ends too early');
    const line = this.#bytes.toString('utf8', this.position, end);
    this.position = end + 1;
    return line;
  }

  push(value: unknown): void {
    this.stack.push(value);
  }

  pop(): unknown {
    if (this.stack.length <= (this.marks.at(-1) ?? 0))
      throw this.invalid('its pickle takes what is not there');
    return this.stack.pop();
  }

  /** Returns the top of the stack without removing it. */
  last(): unknown {
    const value = this.pop();
    this.stack.push(value);
    return value;
  }

  /** Removes and returns all values above the last mark. */
  popMarked(): unknown[] {
    const height = this.marks.pop();
    if (height === undefined) throw this.invalid('its pickle ends a list that was not begun');
    return this.stack.splice(height);
  }

  popMany(count: number): unknown[] {
    return Array.from({ length: count }, () => this.pop()).reverse();
  }

  remember(index: number): void {
    this.memo.set(index, this.last());
  }

  recall(index: number): void {
    if (!this.memo.has(index)) throw this.invalid(`its pickle refers to value ${index}, which is not there`);
    this.push(this.memo.get(index));
  }

  /** Reads an integer; values beyond 2^53 become a bigint. */
  integer(bytes: Buffer): number | bigint {
    if (bytes.length > maxIntegerBytes)
      throw this.invalid(`its pickle has an integer of ${bytes.length} bytes`);
    let value = 0n;
    for (const byte of bytes.toReversed()) value = (value << 8n) | BigInt(byte);
    const signed = BigInt.asIntN(8 * bytes.length, value);
    return BigInt.asIntN(54, signed) === signed ? Number(signed) : signed;
  }

  /** Returns the value that replaces the result of a call in the pickle. */
  call(callee: unknown, parameters: unknown): unknown {
    const list = Array.isArray(parameters) ? (parameters as unknown[]) : [];
    const path = callee instanceof PickledGlobal ? callee.path : '';
    const make = this.#options.constructors.get(path);
    return make === undefined ? new PickledObject(path, list) : make(list);
  }

  persistent(identifier: unknown): void {
    this.push(this.#options.persistent(identifier));
  }

  append(values: readonly unknown[]): void {
    const target = this.last();
    if (target instanceof PickledObject) return;
    if (!Array.isArray(target)) throw this.invalid('its pickle appends to what is no list');
    for (const value of values) target.push(value);
  }

  /** Sets entries of the dictionary at the top of the stack. `items` contains keys and values in turn. */
  setItems(items: readonly unknown[]): void {
    const target = this.last();
    if (target instanceof PickledObject) return;
    if (!(target instanceof Map) || items.length % 2 !== 0) {
      throw this.invalid('its pickle sets items of what is no dictionary');
    }
    for (let index = 0; index < items.length; index += 2) target.set(items[index], items[index + 1]);
  }

  addItems(items: readonly unknown[]): void {
    const target = this.last();
    if (!(target instanceof Set)) throw this.invalid('its pickle adds to what is no set');
    for (const item of items) target.add(item);
  }

  build(): void {
    const state = this.pop();
    const target = this.last();
    // the state of dictionaries and tensors is ignored
    if (target instanceof PickledObject) target.state = state;
  }
}

const stop = 0x2e;
const code = (character: string): number => character.charCodeAt(0);
const text = (bytes: Buffer): string => bytes.toString('utf8');
/** Decodes a Python 2 string. */
const latin = (bytes: Buffer): string => bytes.toString('latin1');

/** The opcodes of Python's pickle module (Lib/pickletools.py), protocols 2 to 5. */
const operations = new Map<number, (reader: PickleReader) => void>([
  // protocol and frames
  [
    0x80,
    (r) => {
      const version = r.take(1)[0]!;
      if (version < 2 || version > 5)
        throw r.invalid(`its pickle has protocol ${version}, and 2 to 5 are read`);
    },
  ],
  [0x95, (r) => void r.take(8)],
  // constants and numbers
  [code('N'), (r) => r.push(null)],
  [0x88, (r) => r.push(true)],
  [0x89, (r) => r.push(false)],
  [code('J'), (r) => r.push(r.take(4).readInt32LE())],
  [code('K'), (r) => r.push(r.take(1)[0])],
  [code('M'), (r) => r.push(r.take(2).readUInt16LE())],
  [0x8a, (r) => r.push(r.integer(r.takeCounted(1)))],
  [0x8b, (r) => r.push(r.integer(r.takeCounted(4)))],
  [code('G'), (r) => r.push(r.take(8).readDoubleBE())],
  // strings and bytes
  [code('X'), (r) => r.push(text(r.takeCounted(4)))],
  [0x8c, (r) => r.push(text(r.takeCounted(1)))],
  [0x8d, (r) => r.push(text(r.takeCounted(8)))],
  [code('U'), (r) => r.push(latin(r.takeCounted(1)))],
  [code('T'), (r) => r.push(latin(r.takeCounted(4)))],
  [code('B'), (r) => r.push(r.takeCounted(4))],
  [code('C'), (r) => r.push(r.takeCounted(1))],
  [0x8e, (r) => r.push(r.takeCounted(8))],
  [0x96, (r) => r.push(r.takeCounted(8))],
  // collections
  [code('('), (r) => void r.marks.push(r.stack.length)],
  [code(')'), (r) => r.push([])],
  [code(']'), (r) => r.push([])],
  [code('}'), (r) => r.push(new Map())],
  [0x8f, (r) => r.push(new Set())],
  [code('t'), (r) => r.push(r.popMarked())],
  [code('l'), (r) => r.push(r.popMarked())],
  [0x85, (r) => r.push(r.popMany(1))],
  [0x86, (r) => r.push(r.popMany(2))],
  [0x87, (r) => r.push(r.popMany(3))],
  [0x91, (r) => r.push(new Set(r.popMarked()))],
  [
    code('d'),
    (r) => {
      const items = r.popMarked();
      r.push(new Map());
      r.setItems(items);
    },
  ],
  [code('a'), (r) => r.append([r.pop()])],
  [code('e'), (r) => r.append(r.popMarked())],
  [code('s'), (r) => r.setItems(r.popMany(2))],
  [code('u'), (r) => r.setItems(r.popMarked())],
  [0x90, (r) => r.addItems(r.popMarked())],
  // opcodes for the stack and the memo
  [code('0'), (r) => void r.pop()],
  [code('1'), (r) => void r.popMarked()],
  [code('2'), (r) => r.push(r.last())],
  [code('q'), (r) => r.remember(r.take(1)[0]!)],
  [code('r'), (r) => r.remember(r.take(4).readUInt32LE())],
  [0x94, (r) => r.remember(r.memo.size)],
  [code('h'), (r) => r.recall(r.take(1)[0]!)],
  [code('j'), (r) => r.recall(r.take(4).readUInt32LE())],
  // classes and calls
  [
    code('c'),
    (r) => {
      const module = r.line();
      r.push(new PickledGlobal(module, r.line()));
    },
  ],
  [
    0x93,
    (r) => {
      const [module, name] = r.popMany(2);
      if (typeof module !== 'string' || typeof name !== 'string')
        throw r.invalid('its pickle has a class without name');
      r.push(new PickledGlobal(module, name));
    },
  ],
  [
    code('R'),
    (r) => {
      const [callee, parameters] = r.popMany(2);
      r.push(r.call(callee, parameters));
    },
  ],
  [
    0x81,
    (r) => {
      const [callee, parameters] = r.popMany(2);
      r.push(r.call(callee, parameters));
    },
  ],
  [
    0x92,
    (r) => {
      const [callee, parameters] = r.popMany(3);
      r.push(r.call(callee, parameters));
    },
  ],
  [code('b'), (r) => r.build()],
  [code('Q'), (r) => r.persistent(r.pop())],
]);
