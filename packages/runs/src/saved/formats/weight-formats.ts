import { ggufFormat } from './gguf-format.js';
import { ggufLoraFormat } from './gguf-lora-format.js';
import { huggingFaceFormat } from './huggingface-format.js';
import { megatronFormat } from './megatron-format.js';
import { onnxFormat } from './onnx-format.js';
import { pageFormat } from './page-format.js';
import { peftFormat } from './peft-format.js';
import type { WeightFormat } from './weight-format.js';

/** All weight formats. To add a format, write one file and add one line to this list. */
export const weightFormats: readonly WeightFormat[] = [
  huggingFaceFormat,
  peftFormat,
  megatronFormat,
  ggufFormat,
  ggufLoraFormat,
  onnxFormat,
  pageFormat,
];
