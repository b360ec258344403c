import { statSync } from 'node:fs';
import { readDocuments } from '@mtl/data';
import { DataError } from '@mtl/errors';
import { type ClozeAccuracy, type ClozeExample, clozeAccuracy } from '@mtl/inference';
import type { Tokenizer } from '@mtl/tokenizers';
import { requiredTokenizer } from '../../../command-line/model-flags.js';
import { formatTable } from '../../../terminal/report-text.js';
import { encodePair } from '../encode-text.js';
import type { EvaluationTask } from './evaluation-task.js';

/**
 * The task `lambada`: the fraction of passages whose last word is predicted correctly, with all of its tokens
 * (Paperno et al. 2016; strict, as in Shoeybi et al. 2019, section 5.3). The task needs the original file:
 * JSON lines with a "text" field, without tokenized punctuation.
 */
export const lambadaTask: EvaluationTask = {
  name: 'lambada',
  defaultStride: undefined,
  run: async ({ path, loaded, batchSize, onProgress }) => {
    const examples = await readPassages(path, requiredTokenizer(loaded));
    const result = await clozeAccuracy({
      model: loaded.model,
      examples,
      batchSize,
      onProgress: ({ numDone, numExamples }) => onProgress(numDone / numExamples),
    });
    const { accuracy, numCorrect, numExamples, numShortened } = result;
    return { report: { accuracy, numCorrect, numExamples, numShortened }, table: formatResult(result) };
  },
};

function formatResult({ accuracy, numCorrect, numExamples, numShortened }: ClozeAccuracy): string {
  const shortened = ['longer than the context (beginning left out)', numShortened] as const;
  return formatTable([
    ['accuracy', `${(100 * accuracy).toFixed(2)} %`],
    ['last words guessed', numCorrect],
    ['passages', numExamples],
    ...(numShortened === 0 ? [] : [shortened]),
  ]);
}

async function readPassages(path: string, tokenizer: Tokenizer): Promise<ClozeExample[]> {
  if (!/\.(jsonl|jsonl\.gz|parquet)$/.test(path) || !statSync(path, { throwIfNoEntry: false })?.isFile()) {
    throw new DataError('MTL_EVALUATION_DATA', `${path} is no file of passages`, {
      expected: 'an existing .jsonl, .jsonl.gz or .parquet, a "text" in every row',
    });
  }
  const examples: ClozeExample[] = [];
  for await (const text of readDocuments({ path })) {
    examples.push(splitCloze(text, { tokenizer, where: `${path}, passage ${examples.length + 1}` }));
  }
  if (examples.length > 0) return examples;
  throw new DataError('MTL_EVALUATION_DATA', `${path} holds no passage`);
}

/**
 * Splits a text into its context and its last word. The word includes the space before it, because tokens of
 * GPT-2's tokenizer begin with this space.
 */
function splitCloze(
  text: string,
  { tokenizer, where }: { tokenizer: Tokenizer; where: string },
): ClozeExample {
  const parts = /^(.*\S)\s+(\S+)\s*$/su.exec(text);
  if (parts === null) {
    throw new DataError('MTL_EVALUATION_DATA', `${where} has fewer than two words`, {
      expected: 'a passage whose last word can be guessed',
      remedy: 'remove it',
    });
  }
  return encodePair(tokenizer, parts[1]!, ` ${parts[2]}`);
}
