/**
 * The types of tensors in ONNX files: their codes (see TensorProto.DataType in onnx.proto) and their sizes in
 * bytes.
 */
export const dataTypes = {
  FLOAT: { id: 1, bytes: 4 },
  UINT8: { id: 2, bytes: 1 },
  INT64: { id: 7, bytes: 8 },
  BOOL: { id: 9, bytes: 1 },
  FLOAT16: { id: 10, bytes: 2 },
} as const;

export type DataType = keyof typeof dataTypes;

/** The types that activations have. */
export type FloatType = 'FLOAT' | 'FLOAT16';
