import { ggufFormat } from './gguf-format.js';
import { ggufLoraFormat } from './gguf-lora-format.js';
import { huggingFaceFormat } from './huggingface-format.js';
import { megatronFormat } from './megatron-format.js';
import { onnxFormat } from './onnx-format.js';
import { pageFormat } from './page-format.js';
import { peftFormat } from './peft-format.js';
import type { WeightFormat } from './weight-format.js';

/** All formats of weights. A new format is a file and a line here. */
export const weightFormats: readonly WeightFormat[] = [
  huggingFaceFormat,
  peftFormat,
  megatronFormat,
  ggufFormat,
  ggufLoraFormat,
  onnxFormat,
  pageFormat,
];
