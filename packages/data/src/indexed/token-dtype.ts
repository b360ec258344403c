/** A typed array that may hold tokens. */
export type TokenArray =
  | Uint8Array
  | Int8Array
  | Int16Array
  | Int32Array
  | BigInt64Array
  | Float64Array
  | Float32Array
  | Uint16Array;

/** The element types of .bin files, with NumPy's names. */
export type TokenDtype = 'uint8' | 'int8' | 'int16' | 'int32' | 'int64' | 'float64' | 'float32' | 'uint16';

/** The stored form of an element type. */
export interface TokenDtypeFormat {
  readonly name: TokenDtype;
  /** The code of the element type in the .idx header. */
  readonly code: number;
  readonly itemSize: number;
  /** The range of valid tokens; for floating-point types, the range of exact integers. */
  readonly minimum: number;
  readonly maximum: number;
  /** Creates an array of `length` elements. */
  readonly create: (length: number) => TokenArray;
}

/** The element types of Megatron's indexed datasets (`DType` in its indexed_dataset module). */
export const tokenDtypes: Readonly<Record<TokenDtype, TokenDtypeFormat>> = {
  uint8: dtype('uint8', 1, 1, 0, 255, (length) => new Uint8Array(length)),
  int8: dtype('int8', 2, 1, -128, 127, (length) => new Int8Array(length)),
  int16: dtype('int16', 3, 2, -32768, 32767, (length) => new Int16Array(length)),
  int32: dtype('int32', 4, 4, -(2 ** 31), 2 ** 31 - 1, (length) => new Int32Array(length)),
  int64: dtype('int64', 5, 8, Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER, (n) => new BigInt64Array(n)),
  float64: dtype(
    'float64',
    6,
    8,
    Number.MIN_SAFE_INTEGER,
    Number.MAX_SAFE_INTEGER,
    (n) => new Float64Array(n),
  ),
  float32: dtype('float32', 7, 4, -(2 ** 24), 2 ** 24, (length) => new Float32Array(length)),
  uint16: dtype('uint16', 8, 2, 0, 65535, (length) => new Uint16Array(length)),
};

/** Returns the element type whose code in the .idx header is `code`, or undefined. */
export function tokenDtypeOfCode(code: number): TokenDtypeFormat | undefined {
  return Object.values(tokenDtypes).find((format) => format.code === code);
}

/**
 * Returns the dtype that Megatron uses for a vocabulary of the given size: uint16 below 65,500 tokens,
 * otherwise int32.
 */
export function tokenDtypeForVocabulary(vocabularySize: number): TokenDtype {
  return vocabularySize < 65500 ? 'uint16' : 'int32';
}

function dtype(
  name: TokenDtype,
  code: number,
  itemSize: number,
  minimum: number,
  maximum: number,
  create: (length: number) => TokenArray,
): TokenDtypeFormat {
  return { name, code, itemSize, minimum, maximum, create };
}
