import type { OnnxDtype } from '../dtype-names.js';
import { byteStorage } from './byte-storage.js';
import { floatStorage } from './float-storage.js';
import { fourBitStorage } from './four-bit-storage.js';
import type { Storage } from './storage.js';

/**
 * The dtypes of models, by name. `suffix` is the end of the file's name, and `storage` how weights are
 * stored.
 */
export const onnxDtypes = {
  fp32: { suffix: '', storage: floatStorage('FLOAT') },
  fp16: { suffix: '_fp16', storage: floatStorage('FLOAT16') },
  q8: { suffix: '_quantized', storage: byteStorage },
  q4: { suffix: '_q4', storage: fourBitStorage },
} as const satisfies Readonly<Record<OnnxDtype, { suffix: string; storage: Storage }>>;
