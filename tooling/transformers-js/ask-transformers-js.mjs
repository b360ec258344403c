import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The folder where `npm run dev -- transformers-js` installs the library. */
export const transformersJsFolder = fileURLToPath(new URL('../build/transformers-js', import.meta.url));

/** The module that answers questions, in Node and in browsers. */
export const answerQuestionsFile = fileURLToPath(new URL('answer-questions.mjs', import.meta.url));

/** True where `npm run dev -- transformers-js` has installed it. */
export const hasTransformersJs = existsSync(join(transformersJsFolder, 'installed.json'));

/**
 * A question about a directory. It asks for one of the following. Logits of a GPT after sequences of tokens,
 * which are one batch, padded on the left; with a `count`, the most likely tokens after each sequence.
 * Results of calls of a pipeline, each call with its arguments. Classes of pairs of texts.
 *
 * @typedef {{
 *   readonly directory: string,
 *   readonly dtype?: string,
 *   readonly sequences?: readonly (readonly number[])[],
 *   readonly count?: number,
 *   readonly pairs?: readonly (readonly [string, string])[],
 *   readonly pipeline?: { readonly task: string, readonly calls: readonly (readonly unknown[])[] },
 * }} TransformersJsQuestion
 */

/**
 * The logits [position][token] of each sequence, the most likely tokens after each sequence, and the results
 * of the pipeline's calls or the logits of each pair.
 *
 * @typedef {{
 *   readonly logits: readonly (readonly (readonly number[])[])[],
 *   readonly greedy: readonly (readonly number[])[],
 *   readonly results: readonly any[],
 * }} TransformersJsAnswer
 */

/**
 * Asks transformers.js about directories, in a separate process.
 *
 * @param {readonly TransformersJsQuestion[]} questions
 * @returns {readonly TransformersJsAnswer[]} an answer to each question
 */
export function askTransformersJs(questions) {
  const program = fileURLToPath(new URL('run-model.mjs', import.meta.url));
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, transformersJsFolder], {
    input: JSON.stringify(questions),
    encoding: 'utf8',
    maxBuffer: 2 ** 30,
  });
  if (status !== 0) throw new Error(`transformers.js: status ${status}\n${stderr}`);
  return JSON.parse(stdout);
}
