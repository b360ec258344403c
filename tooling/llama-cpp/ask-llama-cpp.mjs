import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const folder = fileURLToPath(new URL('../build/llama-cpp', import.meta.url));

/** True if `npm run dev -- llama-cpp` has installed node-llama-cpp. */
export const hasLlamaCpp = existsSync(join(folder, 'installed.json'));

/**
 * A question about a GGUF file: the log-probabilities after sequences of tokens or, with a `count`, the most
 * likely next tokens; the tokens of texts; the embeddings of texts. `adapter`: the path of an adapter file.
 *
 * @typedef {{
 *   readonly path: string,
 *   readonly adapter?: string,
 *   readonly sequences?: readonly { readonly tokens: readonly number[], readonly count?: number }[],
 *   readonly texts?: readonly string[],
 *   readonly specialTokens?: boolean,
 *   readonly vocabOnly?: boolean,
 *   readonly embed?: readonly string[],
 * }} LlamaCppQuestion
 */

/**
 * The log-probabilities [position][token] of each sequence without a count, the next tokens of each sequence
 * with a count, the tokens of each text, and the embedding of each text.
 *
 * @typedef {{
 *   readonly probabilities: readonly (readonly (readonly number[])[])[],
 *   readonly greedy: readonly (readonly number[])[],
 *   readonly texts: readonly (readonly number[])[],
 *   readonly embeddings: readonly (readonly number[])[],
 * }} LlamaCppAnswer
 */

/**
 * Asks llama.cpp about GGUF files. llama.cpp runs in a separate process, because a file that it cannot load
 * ends the process.
 * @param {readonly LlamaCppQuestion[]} questions
 * @returns {readonly LlamaCppAnswer[]} an answer to each question
 */
export function askLlamaCpp(questions) {
  const program = fileURLToPath(new URL('run-model.mjs', import.meta.url));
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, folder], {
    input: JSON.stringify(questions),
    encoding: 'utf8',
    maxBuffer: 2 ** 30,
  });
  if (status !== 0) throw new Error(`llama.cpp: status ${status}\n${stderr}`);
  return JSON.parse(stdout);
}

/**
 * Returns the metadata and the tensors of a GGUF file as read by @huggingface/gguf, an independent reader.
 *
 * @param {string} path
 * @returns {Promise<{ readonly metadata: Readonly<Record<string, unknown>>, readonly tensorInfos: readonly {
 *   readonly name: string, readonly shape: readonly bigint[], readonly dtype: number }[] }>}
 */
export async function readWithHuggingFace(path) {
  const require = createRequire(join(folder, 'package.json'));
  const { gguf } = await import(pathToFileURL(require.resolve('@huggingface/gguf')).href);
  return await gguf(path, { allowLocalFile: true });
}
