import { onnxDtypeNames } from '@mtl/formats/internal';
import type { OnnxDtype } from '@mtl/formats/onnx';
import { checkpointToOnnx, huggingFaceToOnnx } from '../conversion/to-onnx.js';
import type { WeightFormat } from './weight-format.js';

const splitDtypes = (names: string | undefined): OnnxDtype[] | undefined =>
  names?.split(',') as OnnxDtype[] | undefined;

/** Directories of transformers.js. */
export const onnxFormat: WeightFormat = {
  name: 'onnx',
  description: 'transformers.js (ONNX Runtime in Node and browsers), with the tokenizer',
  path: 'DIR',
  dtypes: onnxDtypeNames,
  severalDtypes: true,
  fromCheckpoint: async ({ path: directory, dtype, ...others }) => {
    const { source, dtypes } = await checkpointToOnnx({ ...others, directory, dtypes: splitDtypes(dtype) });
    return { source, dtype: dtypes.join(', ') };
  },
  fromHuggingFace: {
    adapters: 'possible',
    write: async ({ path: directory, dtype, ...others }) => {
      const written = await huggingFaceToOnnx({ ...others, directory, dtypes: splitDtypes(dtype) });
      return { source: written.source, dtype: written.dtypes.join(', ') };
    },
  },
};
