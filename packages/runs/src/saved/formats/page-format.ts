import { onnxDtypeNames } from '@mtl/formats/internal';
import type { OnnxDtype } from '@mtl/formats/onnx';
import { checkpointToPage, huggingFaceToPage } from '../page/to-page.js';
import type { WeightFormat } from './weight-format.js';

/** Pages that answer with a model. */
export const pageFormat: WeightFormat = {
  name: 'page',
  description: 'a page that answers in the browser, for any static server (q8 by default)',
  path: 'DIR',
  dtypes: onnxDtypeNames,
  fromCheckpoint: async ({ path: directory, dtype, ...others }) =>
    await checkpointToPage({ ...others, directory, dtype: dtype as OnnxDtype | undefined }),
  fromHuggingFace: {
    adapters: 'possible',
    write: async ({ path: directory, dtype, ...others }) =>
      await huggingFaceToPage({ ...others, directory, dtype: dtype as OnnxDtype | undefined }),
  },
};
