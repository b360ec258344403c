import { maskingVocabulary, type Tokenizer } from '@mtl/data';
import type { BertStage, MaskedStageBatch, MaskedTokenBatch } from '@mtl/models';
import type { ShowOptions } from './model-recipe.js';

/** Masks that are shown, each of another sample. */
const numMasks = 4;
const numMasksOfBrief = 2;
/** Words shown in the place of a mask, each with its probability. */
const numWords = 5;
/** Tokens shown on either side of a mask. */
const numAround = 10;

/**
 * What a BERT puts in the place of some masks of held-out text: for a first look at what a model has learnt.
 * Undefined where no stage holds the whole model.
 */
export async function filledMasks(
  options: ShowOptions<MaskedStageBatch, BertStage>,
): Promise<string | undefined> {
  const { part, tokenizer, datasets, isBrief } = options;
  const stage = part.stages.get(0);
  const dataset = datasets.valid ?? datasets.train;
  if (stage === undefined || !stage.isLast || dataset === undefined) return undefined;
  const { mask } = maskingVocabulary(tokenizer);
  const most = isBrief ? numMasksOfBrief : numMasks;
  const lines: string[] = [];
  for (let number = 0; number < dataset.length && lines.length < most; number++) {
    // what datasets give is never only an outline
    const batch = dataset.sample(number) as MaskedTokenBatch;
    const index = maskInTheMiddle(batch, mask);
    if (index === undefined) continue;
    const { maskedLogits } = stage.predict(batch);
    const { vocabularySize } = stage.model;
    const logits = maskedLogits.subarray(index * vocabularySize, (index + 1) * vocabularySize);
    const best = bestTokens(logits, numWords).map(
      ({ token, probability }) => `${wordOf(tokenizer, token)} ${(100 * probability).toFixed(1)} %`,
    );
    const truth = wordOf(tokenizer, batch.maskedLabels[index]!);
    lines.push(
      `... ${textAround(batch, { index, tokenizer })} ...\n    ${best.join(', ')} (it was: ${truth})`,
    );
  }
  return lines.length === 0 ? undefined : `Masks filled:\n${lines.join('\n')}`;
}

/** The masked token nearest to the middle of a sample that really shows `[MASK]`. */
function maskInTheMiddle(batch: MaskedTokenBatch, mask: number): number | undefined {
  const middle = batch.lengths[0]! / 2;
  const shown = Array.from({ length: batch.numMasked }, (_, index) => index).filter(
    (index) => batch.tokens[batch.maskedPositions[index]!] === mask,
  );
  const distance = (index: number): number => Math.abs(batch.maskedPositions[index]! - middle);
  return shown.sort((a, b) => distance(a) - distance(b))[0];
}

function textAround(
  batch: MaskedTokenBatch,
  { index, tokenizer }: { index: number; tokenizer: Tokenizer },
): string {
  const at = batch.maskedPositions[index]!;
  const start = Math.max(1, at - numAround);
  const end = Math.min(batch.lengths[0]! - 1, at + numAround + 1);
  const text = (from: number, to: number): string => tokenizer.decode(batch.tokens.subarray(from, to));
  return [text(start, at), '[____]', text(at + 1, end)].join(' ');
}

function wordOf(tokenizer: Tokenizer, token: number): string {
  return tokenizer.decode([token]);
}

function bestTokens(
  logits: Float32Array,
  count: number,
): Array<{ readonly token: number; readonly probability: number }> {
  const largest = logits.reduce((most, value) => Math.max(most, value), Number.NEGATIVE_INFINITY);
  const total = logits.reduce((sum, value) => sum + Math.exp(value - largest), 0);
  return Array.from(logits.keys())
    .sort((a, b) => logits[b]! - logits[a]!)
    .slice(0, count)
    .map((token) => ({ token, probability: Math.exp(logits[token]! - largest) / total }));
}
