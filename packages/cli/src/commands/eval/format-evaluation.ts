import type { Perplexity } from '@mtl/inference';
import { formatTable } from '../../terminal/format-table.js';
import type { EvaluationWindows } from './tasks/evaluation-task.js';

/** A text and how well the model predicts it. */
export interface EvaluationResult extends Perplexity {
  readonly name: string;
  readonly bytes?: number;
}

export interface EvaluationReport extends EvaluationWindows {
  readonly model: string;
  readonly results: readonly EvaluationResult[];
  readonly total: Perplexity;
}

/** All texts together, every token counting once. */
export function totalOf(results: readonly Perplexity[]): Perplexity {
  const sum = (of: (result: Perplexity) => number): number =>
    results.reduce((total, one) => total + of(one), 0);
  const numScored = sum((one) => one.numScored);
  const negativeLogLikelihood = sum((one) => one.negativeLogLikelihood);
  const loss = negativeLogLikelihood / numScored;
  return { numScored, negativeLogLikelihood, loss, perplexity: Math.exp(loss) };
}

/** How a title names windows; '' where there are none. */
export function formatWindows(windows: Partial<EvaluationWindows>): string {
  const { sequenceLength, stride } = windows;
  if (sequenceLength === undefined) return '';
  return `, windows of ${sequenceLength} tokens${stride === sequenceLength ? '' : `, moving by ${stride}`}`;
}

/** The report as a table. */
export function formatEvaluation({ model, results, total, ...windows }: EvaluationReport): string {
  const blocks = results.map((result) => `${result.name}\n${formatTable(rowsOf(result))}`);
  if (results.length > 1) blocks.push(`all ${results.length}\n${formatTable(rowsOf(total))}`);
  return `${model}${formatWindows(windows)}\n${blocks.join('')}`;
}

function rowsOf({ bytes, ...result }: Perplexity & { readonly bytes?: number }) {
  const rows: Array<readonly [string, string | number]> = [
    ['tokens scored', result.numScored],
    ['loss', `${result.loss.toFixed(4)} nats a token`],
    ['perplexity', result.perplexity.toFixed(3)],
  ];
  if (bytes !== undefined) {
    rows.push(['bits a byte', (result.negativeLogLikelihood / Math.LN2 / bytes).toFixed(4)]);
  }
  return rows;
}
