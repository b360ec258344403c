import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The folder into which `npm run dev -- transformers-js` installs transformers.js. */
export const transformersJsFolder = fileURLToPath(new URL('../build/transformers-js', import.meta.url));

/** The path of the module that answers questions, in Node and in browsers. */
export const answerQuestionsFile = fileURLToPath(new URL('answer-questions.mjs', import.meta.url));

/** True if `npm run dev -- transformers-js` has installed transformers.js. */
export const hasTransformersJs = existsSync(join(transformersJsFolder, 'installed.json'));

/**
 * A question about the model in an ONNX directory. `sequences` asks a GPT for the logits after each token;
 * the sequences are one batch, padded on the left. With a `count`, it asks for the next `count` tokens of
 * each sequence instead, by greedy decoding. `pipeline` asks for the results of calls, each with its
 * arguments. `pairs` asks for the logits of text pairs.
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
 * The answer to a question: the logits [position][token] of each sequence, the tokens decoded after each
 * sequence (`greedy`), and the results of the pipeline's calls or the logits of each pair (`results`).
 *
 * @typedef {{
 *   readonly logits: readonly (readonly (readonly number[])[])[],
 *   readonly greedy: readonly (readonly number[])[],
 *   readonly results: readonly any[],
 * }} TransformersJsAnswer
 */

/**
 * Asks transformers.js the given questions, in a separate process.
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
