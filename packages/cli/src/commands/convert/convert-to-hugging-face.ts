import { parameterTensors, type WritableDtype, writeHuggingFaceGpt2 } from '@mtl/models';
import { loadGptForInference, tokenizerFiles } from '@mtl/recipes';

/** What weights can be stored as. */
export const storedDtypes = ['float32', 'bfloat16', 'float16'] as const;

export type StoredDtype = (typeof storedDtypes)[number];

const fileDtypes: Readonly<Record<StoredDtype, WritableDtype>> = {
  float32: 'F32',
  bfloat16: 'BF16',
  float16: 'F16',
};

/** Writes the weights of a checkpoint as transformers' GPT-2, with the tokenizer's files. */
export async function convertToHuggingFace(options: {
  readonly load: string;
  readonly checkpointStep: number | undefined;
  readonly directory: string;
  readonly dtype: StoredDtype;
  readonly onNotice: (notice: string) => void;
}): Promise<void> {
  const { load, checkpointStep, directory, onNotice } = options;
  const loaded = await loadGptForInference({ load, checkpointStep, device: 'cpu', onNotice });
  try {
    const tokenizer = loaded.tokenizer?.options;
    const files = tokenizer === undefined ? [] : tokenizerFiles(tokenizer);
    await writeHuggingFaceGpt2({
      directory,
      model: loaded.configuration,
      tensors: parameterTensors(loaded.parameters),
      dtype: fileDtypes[options.dtype],
      endTokens: loaded.endTokens,
      tokenizerFiles: Object.fromEntries(files.map(({ name, path }) => [name, path])),
    });
    process.stdout.write(`${loaded.path} -> ${directory} (${options.dtype})\n`);
    if (files.length === 0) {
      onNotice(`the ${loaded.tokenizer?.name ?? 'tokenizer'} has no files of its own: none were written`);
    }
  } finally {
    loaded.dispose();
  }
}
