/** The names that transformers.js uses for the dtypes of ONNX models. */
export const onnxDtypeNames = ['fp32', 'fp16', 'q8', 'q4'] as const;

/** The name of a dtype of ONNX models. */
export type OnnxDtype = (typeof onnxDtypeNames)[number];
