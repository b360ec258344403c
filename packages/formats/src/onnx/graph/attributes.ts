import type { AttributeProto } from '../protobuf/messages.js';
import { type DataType, dataTypes } from './data-types.js';

/** The value of a node's attribute, without the attribute's name. */
export type AttributeValue = Omit<AttributeProto, 'name'>;

// the numbers of AttributeProto.AttributeType
export const int = (value: number): AttributeValue => ({ type: 2, i: BigInt(value) });
export const float = (value: number): AttributeValue => ({ type: 1, f: value });
export const text = (value: string): AttributeValue => ({ type: 3, s: new TextEncoder().encode(value) });
export const ints = (values: readonly number[]): AttributeValue => ({ type: 7, ints: values.map(BigInt) });
export const typeNumber = (type: DataType): AttributeValue => int(dataTypes[type].id);
