import { fitsRows, rowLength, type TensorType } from './tensor-types.js';

/**
 * The dtypes of GGUF files, by their names in --dtype. `fileType` is the value of `general.file_type` (see
 * llama.h), and `matrices` the tensor type of most matrices.
 */
export const ggufDtypes = {
  float32: { fileType: 0, matrices: 'F32' },
  float16: { fileType: 1, matrices: 'F16' },
  bfloat16: { fileType: 32, matrices: 'BF16' },
  q8_0: { fileType: 7, matrices: 'Q8_0' },
  q4_0: { fileType: 2, matrices: 'Q4_0' },
  q4_k_m: { fileType: 15, matrices: 'Q4_K' },
} as const satisfies Readonly<Record<string, { fileType: number; matrices: TensorType }>>;

/** The name of a GGUF file's dtype. */
export type GgufDtype = keyof typeof ggufDtypes;

/** Returns true if a file of the given dtype stores most weights in quantized blocks. */
export const isQuantized = (dtype: GgufDtype): boolean => !['float32', 'float16', 'bfloat16'].includes(dtype);

/** The model properties that determine the types of the tensors. */
export interface TypedModel {
  readonly numLayers: number;
  readonly numExperts?: number | undefined;
  /** True if the embedding also serves as the output head. */
  readonly tieEmbeddings: boolean;
  /** True if llama.cpp classifies the model as a 70B model, because of its number of layers. */
  readonly isSeventyBillion?: boolean;
}

/** llama.cpp's replacement types for tensors whose rows do not consist of complete blocks of the K type. */
const replacements: Partial<Readonly<Record<TensorType, TensorType>>> = {
  Q4_K: 'Q5_0',
  Q5_K: 'Q5_1',
  Q6_K: 'Q8_0',
};

/**
 * Matches the names of tensors that stay in float32: norms and routers, which are small and sensitive to
 * rounding, and tables that are read row by row.
 */
const inFloat32 = /(^|\.)(ffn_gate_inp|position_embd|token_types|rope_freqs)\.weight$|_norm\.weight$/;

/**
 * Returns true if q4_k_m stores the given layer with more bits. These layers are the first eighth, the last
 * eighth, and every third layer between them.
 */
function hasMoreBits(layer: number, numLayers: number): boolean {
  const eighth = Math.floor(numLayers / 8);
  return layer < eighth || layer >= Math.floor((7 * numLayers) / 8) || (layer - eighth) % 3 === 2;
}

/** Returns a matrix's type in a quantized file, without regard to the length of its rows. */
function quantizedType(name: string, dtype: GgufDtype, model: TypedModel): TensorType {
  const { matrices } = ggufDtypes[dtype];
  if (dtype === 'q8_0') return matrices;
  const [, layer, part = ''] = /^blk\.(\d+)\.(\w+)\.weight$/.exec(name) ?? [];
  if (name === 'output.weight' || (model.tieEmbeddings && name === 'token_embd.weight')) return 'Q6_K';
  const hasEightExperts = model.numExperts === 8;
  if (hasEightExperts && (part === 'attn_v' || part === 'attn_k')) return 'Q8_0';
  if (dtype !== 'q4_k_m') return matrices;
  if (part === 'attn_output' && hasEightExperts) return 'Q5_K';
  const hasValues = part === 'attn_v' || part === 'attn_qkv';
  const isImportant = hasValues || part.startsWith('ffn_down');
  if (isImportant && hasMoreBits(Number(layer), model.numLayers)) return 'Q6_K';
  return hasValues && model.isSeventyBillion === true ? 'Q5_K' : matrices;
}

/**
 * Returns a tensor's type in a file of the given dtype. llama.cpp's quantization without an importance matrix
 * chooses the same types (see llama-quant.cpp).
 *
 * @param tensor its name in GGUF, and its row-major shape
 */
export function storedType(
  { name, shape }: { readonly name: string; readonly shape: readonly number[] },
  dtype: GgufDtype,
  model: TypedModel,
): TensorType {
  if (shape.length === 1 || inFloat32.test(name)) return 'F32';
  const { matrices } = ggufDtypes[dtype];
  if (!isQuantized(dtype)) return matrices;
  const length = rowLength(shape);
  const wanted = quantizedType(name, dtype, model);
  const type = fitsRows(wanted, length) ? wanted : (replacements[wanted] ?? wanted);
  return fitsRows(type, length) ? type : 'F16';
}

/**
 * Returns a notice about the matrices whose type differs from the usual type for `dtype`, because their rows
 * do not consist of complete blocks. Returns undefined if there are no such matrices.
 */
export function replacedTypesNotice(
  tensors: readonly { readonly name: string; readonly shape: readonly number[]; readonly type: TensorType }[],
  dtype: GgufDtype,
  model: TypedModel,
): string | undefined {
  if (!isQuantized(dtype)) return undefined;
  const replaced = tensors.filter(({ name, shape, type }) => {
    if (type === 'F32') return false;
    return (
      type !== quantizedType(name, dtype, model) &&
      !fitsRows(quantizedType(name, dtype, model), rowLength(shape))
    );
  });
  if (replaced.length === 0) return undefined;
  const kinds = new Map(
    replaced.map(({ name, shape, type }) => [`rows of ${rowLength(shape)} as ${type}`, name]),
  );
  return (
    `${dtype}: ${replaced.length} of ${tensors.length} tensors have rows that are not whole blocks, ` +
    `and are stored in larger types as llama.cpp does (${[...kinds.keys()].join(', ')})`
  );
}
