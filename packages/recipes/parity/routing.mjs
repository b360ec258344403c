/**
 * Which experts every token of a run goes to: recorded by its ranks, and compared between runs token by
 * token.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { deserialize, serialize } from 'node:v8';

/**
 * Records what the routers of this rank's stages choose. Its extension joins the training loop, and `save`
 * writes a file for `readRoutings`.
 */
export function recordRouting() {
  const choices = [];
  let iteration = 0;
  const extension = {
    name: 'routing',
    beforeStep: (number) => {
      iteration = number;
    },
  };
  const observe = ({ part, processes }) => {
    const { tp, cp } = processes.groups;
    for (const stage of part.stages.values()) {
      stage.observeRouting = ({ router, experts, logits, samples }) => {
        const [numRows, topK] = experts.shape;
        // a tensor-parallel rank routes its part of the rows, in their order
        const first = (tp?.rank ?? 0) * numRows;
        const numOwn = (numRows * (tp?.size ?? 1)) / samples.size;
        const slices = stage.sequence.slices(numOwn * (cp?.size ?? 1));
        choices.push({
          iteration,
          router,
          first,
          positions: slices.flatMap(({ start, end }) =>
            Array.from({ length: end - start }, (_, at) => start + at),
          ),
          topK,
          samples: samples.read(),
          experts: experts.read(),
          logits: logits.read(),
        });
      };
    }
  };
  const save = (directory, rank) => {
    if (choices.length > 0) writeFileSync(join(directory, `routing-${rank}.bin`), serialize(choices));
  };
  return { extension, observe, save };
}

/**
 * The choices of a run by token: its experts in the order of choice, and the logits. Empty without experts.
 */
export function readRoutings(directory) {
  const byToken = new Map();
  for (const name of readdirSync(directory).filter((each) => each.startsWith('routing-'))) {
    for (const choice of deserialize(readFileSync(join(directory, name)))) {
      const { iteration, router, first, positions, topK, samples, experts, logits } = choice;
      const numExperts = (logits.length * topK) / experts.length;
      for (let row = 0; row < experts.length / topK; row++) {
        const index = first + row;
        const sample = samples[index % samples.length];
        const position = positions[Math.floor(index / samples.length)];
        byToken.set(`${iteration}/${router}/${sample}/${position}`, {
          experts: experts.subarray(row * topK, (row + 1) * topK),
          logits: logits.subarray(row * numExperts, (row + 1) * numExperts),
        });
      }
    }
  }
  return byToken;
}

/** Logits this near are a tie that rounding decides: rounding alone was measured at 2e-6 in float32. */
const nearTie = 1e-5;

/**
 * The first step in which tokens go to other experts than in the reference, and the gap between the logits of
 * the experts that changed places: `isNearTie` where rounding explains it. Undefined where no token does.
 */
export function firstFlip(run, reference) {
  if (run.size !== reference.size) return { iteration: 0, gap: Number.POSITIVE_INFINITY, isNearTie: false };
  let first;
  for (const [token, { experts, logits }] of reference) {
    const others = run.get(token)?.experts ?? [];
    if (experts.length === others.length && experts.every((expert, slot) => expert === others[slot]))
      continue;
    const iteration = Number(token.slice(0, token.indexOf('/')));
    if (first !== undefined && first.iteration <= iteration) continue;
    const changed = Array.from(experts).flatMap((expert, slot) => {
      const other = others[slot];
      return other === undefined || other === expert ? [] : [Math.abs(logits[expert] - logits[other])];
    });
    const gap = Math.max(0, ...changed);
    first = { iteration, token, gap, isNearTie: gap < nearTie };
  }
  return first;
}
