export { type WriteGgufLoraOptions, writeGgufLora } from './adapters/write-gguf-lora.js';
export { type WriteGgufBertOptions, writeGgufBert } from './bert/write-gguf-bert.js';
export { type GgufGpt, readGguf } from './reading/read-gguf.js';
export { type GgufDtype, ggufDtypes } from './stored-dtypes.js';
export type { TokenizerFiles } from './tokenizer/tokenizer-files.js';
export { type WriteGgufOptions, writeGguf } from './write-gguf.js';
