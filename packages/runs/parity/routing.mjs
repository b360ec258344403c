/** The experts of every token in a run. The run's ranks record them, and runs are compared token by token. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { deserialize, serialize } from 'node:v8';

/**
 * A router's settings, and its expert assignment for a token.
 *
 * @typedef {object} TokenChoice
 * @property {ArrayLike<number>} experts
 * @property {ArrayLike<number>} logits
 * @property {{ topK: number, scoreFunction: string, numGroups: number, groupTopK: number, bias?:
 *   ArrayLike<number> | undefined }} selection
 */

/**
 * A token that a layer sends to different experts in two runs. `router` is the router's name, such as
 * `decoder.layers.3.mlp.router`.
 *
 * @typedef {{ readonly router: string, readonly sample: string, readonly position: string }} FlippedToken
 */

/**
 * A step in which tokens choose different experts. `gap` is the largest difference between the scores of
 * experts that changed places. `tokens` contains, for each sample, the flipped tokens of the first layer that
 * has any.
 *
 * @typedef {object} Flip
 * @property {number} iteration
 * @property {number} gap
 * @property {boolean} isNearTie
 * @property {readonly FlippedToken[]} tokens
 */

/**
 * Records the expert assignments of the routers on this rank's stages. The returned extension must be added
 * to the training loop, and `save` writes a file for `readRoutings`.
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
    const { tp } = processes.groups;
    for (const stage of part.stages.values()) {
      stage.observeRouting = ({ router, experts, logits, samples, indices }) => {
        const [numRows, topK] = experts.shape;
        const bias = stage.parameters.find(({ name }) => name === `${router}.expert_bias`);
        // a tensor-parallel rank routes a contiguous slice of the rows
        const first = (tp?.rank ?? 0) * numRows;
        choices.push({
          iteration,
          router,
          first,
          indices,
          topK,
          samples: samples.read(),
          experts: experts.read(),
          logits: logits.read(),
          selection: {
            topK,
            scoreFunction: stage.model.moeRouterScoreFunction ?? 'softmax',
            numGroups: stage.model.moeRouterNumGroups ?? 1,
            groupTopK: stage.model.moeRouterGroupTopk ?? 1,
            bias: bias?.data.read(),
          },
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
 * Returns a run's expert assignments by token: the token's experts in the order of choice, and the logits.
 * The map is empty if the model has no experts.
 */
export function readRoutings(directory) {
  const byToken = new Map();
  for (const name of readdirSync(directory).filter((each) => each.startsWith('routing-'))) {
    for (const choice of deserialize(readFileSync(join(directory, name)))) {
      const { iteration, router, first, indices, topK, samples, experts, logits, selection } = choice;
      const numExperts = (logits.length * topK) / experts.length;
      for (let row = 0; row < experts.length / topK; row++) {
        const index = indices?.[first + row] ?? first + row;
        const sample = samples[index % samples.length];
        const position = Math.floor(index / samples.length);
        byToken.set(`${iteration}/${router}/${sample}/${position}`, {
          experts: experts.subarray(row * topK, (row + 1) * topK),
          logits: logits.subarray(row * numExperts, (row + 1) * numExperts),
          selection,
        });
      }
    }
  }
  return byToken;
}

/**
 * The limit for a tie: rounding can reverse the order of scores that differ by less. Rounding alone was
 * measured at 2e-6 in float32.
 */
const nearTie = 1e-5;

const computeSum = (values) => values.reduce((sum, value) => sum + value, 0);

/**
 * Returns the difference between the scores that decided between a token's experts and `others`: the scores
 * of the experts that changed places, or the summed scores of groups if the experts in `others` are in a
 * different group.
 *
 * @param {TokenChoice} choice
 * @param {ArrayLike<number>} others
 * @returns {number}
 */
export function measureGap({ experts, logits, selection }, others) {
  const { topK, scoreFunction, numGroups, groupTopK, bias } = selection;
  const scores = Array.from(logits, (logit, expert) => {
    const score = scoreFunction === 'sigmoid' ? 1 / (1 + Math.exp(-logit)) : logit;
    return score + (bias?.[expert] ?? 0);
  });
  const each = scores.length / numGroups;
  const findGroup = (expert) => Math.floor(expert / each);
  const scoreOfGroup = (group) =>
    computeSum(
      scores
        .slice(group * each, (group + 1) * each)
        .sort((a, b) => b - a)
        .slice(0, Math.floor(topK / groupTopK)),
    );
  const findGroups = (chosen) => new Set(Array.from(chosen, findGroup));
  const [mine, theirs] = [findGroups(experts), findGroups(others)];
  const left = [...mine].filter((group) => !theirs.has(group));
  const entered = [...theirs].filter((group) => !mine.has(group));
  if (numGroups > 1 && left.length === 1 && entered.length === 1) {
    return Math.abs(scoreOfGroup(left[0]) - scoreOfGroup(entered[0]));
  }
  const changed = Array.from(experts).flatMap((expert, slot) => {
    const other = others[slot];
    return other === undefined || other === expert ? [] : [Math.abs(scores[expert] - scores[other])];
  });
  return Math.max(0, ...changed);
}

/**
 * Returns the steps in which tokens choose different experts than in the reference, in order. `isNearTie` is
 * true if rounding explains the flip. In each sample, only the first layer with flipped tokens counts,
 * because the changed activations may flip further tokens in later layers.
 *
 * @param {ReadonlyMap<string, TokenChoice>} run by `iteration/router/sample/position`
 * @param {ReadonlyMap<string, TokenChoice>} reference
 * @returns {readonly Flip[]}
 */
export function findFlips(run, reference) {
  if (run.size !== reference.size) {
    return [{ iteration: 0, gap: Number.POSITIVE_INFINITY, isNearTie: false, tokens: [] }];
  }
  const firstLayers = new Map();
  for (const [token, choice] of reference) {
    const others = run.get(token)?.experts ?? [];
    const { experts } = choice;
    if (experts.length === others.length && experts.every((expert, slot) => expert === others[slot]))
      continue;
    // a single process routes each sample from the first layer to the last
    const [iteration, router, sample, position] = token.split('/');
    const key = `${iteration}/${sample}`;
    const first = firstLayers.get(key) ?? { iteration: Number(iteration), router, gap: 0, tokens: [] };
    if (first.router === router) {
      first.gap = Math.max(first.gap, measureGap(choice, others));
      first.tokens.push({ router, sample, position });
    }
    firstLayers.set(key, first);
  }
  const flips = new Map();
  for (const { iteration, gap, tokens } of firstLayers.values()) {
    const before = flips.get(iteration) ?? { gap: 0, tokens: [] };
    const largest = Math.max(gap, before.gap);
    const all = [...before.tokens, ...tokens];
    flips.set(iteration, { iteration, gap: largest, isNearTie: largest < nearTie, tokens: all });
  }
  return [...flips.values()].sort((one, other) => one.iteration - other.iteration);
}

/**
 * The maximum number of tokens that a message names. If there are more tokens, the message contains only
 * their count.
 */
const mostNamed = 3;

/**
 * Describes a flip: the step and, for each layer, the tokens that choose different experts.
 *
 * @param {Flip} flip
 * @returns {string}
 */
export function textOfFlip({ iteration, tokens }) {
  if (tokens.length === 0) return 'the first step: routers got other tokens';
  const layers = new Map();
  for (const { router, sample, position } of tokens) {
    const layer = router.replace(/\.router$/, '');
    layers.set(layer, [...(layers.get(layer) ?? []), `sample ${sample} position ${position}`]);
  }
  const parts = [...layers].map(([layer, all]) => {
    const more = all.length > mostNamed ? `, and ${all.length - mostNamed} more` : '';
    const number = all.length === 1 ? '1 token' : `${all.length} tokens`;
    return `${number} of ${layer} (${all.slice(0, mostNamed).join(', ')}${more})`;
  });
  return `step ${iteration}: ${parts.join('; ')}`;
}
