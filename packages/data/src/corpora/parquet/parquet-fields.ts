/** A decoded Thrift struct: `field_3` is the field with id 3. */
export type ThriftStruct = Readonly<Record<string, unknown>>;

/** A field that must be a struct. Throws an Error naming it. */
export function structField(value: unknown, name: string): ThriftStruct {
  if (typeof value !== 'object' || value === null || Array.isArray(value) || ArrayBuffer.isView(value)) {
    throw new Error(`its ${name} is missing or malformed`);
  }
  return value as ThriftStruct;
}

/** A field that must be a list of structs. Throws an Error naming it. */
export function structsField(value: unknown, name: string): ThriftStruct[] {
  if (!Array.isArray(value)) throw new Error(`its ${name} is missing or malformed`);
  return value.map((element) => structField(element, name));
}

/** A field that must be an integer of 0 or more, below 2^53. Throws an Error naming it. */
export function countField(value: unknown, name: string): number {
  const count = typeof value === 'bigint' ? Number(value) : value;
  if (Number.isSafeInteger(count) && (count as number) >= 0) return count as number;
  throw new Error(`its ${name} is ${value === undefined ? 'missing' : String(value)}`);
}

/** A field that must be a text. Throws an Error naming it. */
export function textField(value: unknown, name: string): string {
  if (value instanceof Uint8Array) return Buffer.from(value).toString('utf8');
  throw new Error(`its ${name} is missing or malformed`);
}
