import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { ResolvedFlags } from '@mtl/configuration';
import { ConfigurationError, MtlError } from '@mtl/errors';
import { type ModelBlocks, registerModelBlocks } from '@mtl/models';

/** The value of --model-blocks if the program itself passes the blocks to `train`, without a module. */
export const blocksOfProgram = 'the program';

const expected =
  'a module whose default export is a function from { layer, standard, model } to the block of that layer';

/**
 * Runs the module of --model-blocks, which registers its blocks. The module must run before the flags of a
 * checkpoint are read. For safety, a module runs only if the user names it, never because a checkpoint names
 * it. If a model's blocks are not registered, the model cannot be built.
 *
 * @throws ConfigurationError `MTL_MODEL_BLOCKS` if the flag's value is not the path of such a module
 */
export async function loadModelBlocks({ values, loaded }: ResolvedFlags): Promise<void> {
  const path = values['model-blocks'];
  // the program has registered its own blocks
  if (path === undefined || path === blocksOfProgram || loaded !== undefined) return;
  registerModelBlocks(path, await blocksOfModule(path));
}

async function blocksOfModule(path: string): Promise<ModelBlocks> {
  let loaded: { readonly default?: unknown };
  try {
    loaded = await import(pathToFileURL(resolve(path)).href);
  } catch (error) {
    // the error comes from a package of this project that the module called
    if (MtlError.isInstance(error)) throw error;
    throw refusal(path, error instanceof Error ? error.message : String(error), error);
  }
  if (typeof loaded.default !== 'function') throw refusal(path, 'its default export is no function');
  return loaded.default as ModelBlocks;
}

function refusal(path: string, message: string, cause?: unknown): ConfigurationError {
  return new ConfigurationError('MTL_MODEL_BLOCKS', `${path}: ${message}`, { expected, cause });
}
