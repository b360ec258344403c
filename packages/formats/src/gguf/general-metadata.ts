import type { HuggingFaceOrigin } from '../huggingface/huggingface-origin.js';
import { type Metadata, text, uint32 } from './metadata.js';
import { type GgufDtype, ggufDtypes, isQuantized } from './stored-dtypes.js';

/** Returns the metadata that every GGUF file has: architecture, name, license and dtype. */
export function generalMetadata(
  architecture: string,
  options: {
    readonly dtype?: GgufDtype;
    readonly name?: string | undefined;
    readonly origin?: HuggingFaceOrigin | undefined;
  },
): Metadata {
  const { dtype = 'float32', name, origin } = options;
  const license = origin?.config.license;
  return {
    'general.architecture': text(architecture),
    'general.type': text('model'),
    ...(name === undefined ? {} : { 'general.name': text(name) }),
    ...(typeof license === 'string' ? { 'general.license': text(license) } : {}),
    'general.file_type': uint32(ggufDtypes[dtype].fileType),
    ...(isQuantized(dtype) ? { 'general.quantization_version': uint32(2) } : {}),
  };
}
