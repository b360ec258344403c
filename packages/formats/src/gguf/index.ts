export { type GgufDtype, ggufDtypes } from './stored-dtypes.js';
export type { TokenizerFiles } from './tokenizer/tokenizer-files.js';
export { type WriteGgufOptions, writeGguf } from './write-gguf.js';
