import { PickledGlobal, PickledObject } from './read-pickle.js';

/** A Python tuple; arrays become Python lists. */
export class PickledTuple {
  readonly items: readonly PickleValue[];

  constructor(items: readonly PickleValue[]) {
    this.items = items;
  }
}

/** A reference to an object outside of the pickle, such as a storage. */
export class PersistentIdentifier {
  readonly identifier: PickleValue;

  constructor(identifier: PickleValue) {
    this.identifier = identifier;
  }
}

/**
 * A value that a pickle can contain. Dictionaries are Maps. Instances of classes are {@link PickledObject}s.
 * Their parameters and state are pickle values, too.
 */
export type PickleValue =
  | null
  | boolean
  | number
  | string
  | readonly PickleValue[]
  | ReadonlyMap<PickleValue, PickleValue>
  | PickledTuple
  | PickledGlobal
  | PickledObject
  | PersistentIdentifier;

const opcode = (...codes: (number | string)[]): Buffer =>
  Buffer.from(codes.map((code) => (typeof code === 'string' ? code.charCodeAt(0) : code)));

/**
 * Writes pickle protocol 2, which every version of PyTorch can read. Values may be nested a thousand levels
 * deep.
 */
export function writePickle(value: PickleValue): Buffer {
  const parts: Buffer[] = [opcode(0x80, 2)];
  write(value, parts);
  parts.push(opcode('.'));
  return Buffer.concat(parts);
}

function write(value: PickleValue, parts: Buffer[]): void {
  if (value === null) parts.push(opcode('N'));
  else if (typeof value === 'boolean') parts.push(opcode(value ? 0x88 : 0x89));
  else if (typeof value === 'number') parts.push(encodeNumber(value));
  else if (typeof value === 'string') parts.push(encodeString(value));
  else if (value instanceof PickledGlobal) parts.push(encodeGlobal(value));
  else if (value instanceof PickledTuple) writeTuple(value.items, parts);
  else if (value instanceof PersistentIdentifier) {
    write(value.identifier, parts);
    parts.push(opcode('Q'));
  } else if (value instanceof PickledObject) writeObject(value, parts);
  else if (Array.isArray(value)) {
    parts.push(opcode(']', '('));
    for (const item of value as readonly PickleValue[]) write(item, parts);
    parts.push(opcode('e'));
  } else {
    parts.push(opcode('}', '('));
    for (const [key, item] of value as ReadonlyMap<PickleValue, PickleValue>) {
      write(key, parts);
      write(item, parts);
    }
    parts.push(opcode('u'));
  }
}

function writeTuple(items: readonly PickleValue[], parts: Buffer[]): void {
  if (items.length > 0) parts.push(opcode('('));
  for (const item of items) write(item, parts);
  parts.push(opcode(items.length > 0 ? 't' : ')'));
}

/**
 * Writes an object. If its path is a function, the pickle calls the function. If its path is a class, the
 * pickle creates an instance without the constructor, and then sets the instance's state.
 */
function writeObject({ path, parameters, state }: PickledObject, parts: Buffer[]): void {
  const dot = path.lastIndexOf('.');
  const name = path.slice(dot + 1);
  parts.push(encodeGlobal(new PickledGlobal(path.slice(0, dot), name)));
  writeTuple(parameters as readonly PickleValue[], parts);
  parts.push(opcode(state === undefined ? 'R' : 0x81));
  if (state === undefined) return;
  write(state as PickleValue, parts);
  parts.push(opcode('b'));
}

function encodeNumber(value: number): Buffer {
  if (!Number.isSafeInteger(value)) {
    const bytes = Buffer.alloc(9);
    bytes[0] = 'G'.charCodeAt(0);
    bytes.writeDoubleBE(value, 1);
    return bytes;
  }
  const isSmall = value === (value | 0);
  const bytes = Buffer.alloc(isSmall ? 5 : 10);
  if (isSmall) {
    bytes[0] = 'J'.charCodeAt(0);
    bytes.writeInt32LE(value, 1);
  } else {
    bytes.set([0x8a, 8]);
    bytes.writeBigInt64LE(BigInt(value), 2);
  }
  return bytes;
}

function encodeString(text: string): Buffer {
  const content = Buffer.from(text, 'utf8');
  const header = Buffer.alloc(5);
  header[0] = 'X'.charCodeAt(0);
  header.writeUInt32LE(content.length, 1);
  return Buffer.concat([header, content]);
}

const encodeGlobal = ({ module, name }: PickledGlobal): Buffer =>
  Buffer.from(`c${module}\n${name}\n`, 'utf8');
