import { toOnigurumaAst } from 'oniguruma-parser';
import { generate } from 'oniguruma-parser/generator';
import type {
  AlternativeElementNode,
  AlternativeNode,
  OnigurumaAst,
  QuantifierNode,
} from 'oniguruma-parser/parser';
import { toRegExpDetails } from 'oniguruma-to-es';

/** The most ways that a pattern may match at one place of a text; more count as too many. */
const maximumWays = 1000;
const anyCharacter = '[^]';

/** The cost of a part of a pattern when the part after it fails. */
interface Cost {
  /** Number of ways in which the part can match at one place, not counting loops. */
  readonly ways: number;
  /**
   * Number of loops that compete for the same characters: each multiplies the ways by the length of a run of
   * its characters.
   */
  readonly depth: number;
  /** JavaScript expressions (flag `v`) for the characters that the loops match. */
  readonly loops: readonly string[];
}

const free: Cost = { ways: 1, depth: 0, loops: [] };
const unbounded: Cost = { ways: Number.POSITIVE_INFINITY, depth: 0, loops: [] };

/**
 * Returns a test for texts in which a search for all matches could backtrack a lot. These are all texts if
 * loops are nested or the pattern is too complex to analyse; otherwise texts with a long run of characters
 * that one loop matches while the rest of its alternative can fail. For the patterns of published tokenizers
 * these are only runs of hundreds of spaces or letters.
 *
 * @param source a valid expression of Oniguruma
 */
export function mayBacktrack(source: string): (text: string) => boolean {
  // Flags for the rest of a pattern; flags of a group are handled at the group.
  const ignoresCase = /\(\?[a-z]*i[a-z]*(?:-[a-z]*)?\)/i.test(source);
  const { ways, depth, loops } = alternatives(toOnigurumaAst(source).body, { ignoresCase, canFail: false });
  if (ways > maximumWays) return () => true;
  if (depth === 0) return () => false;
  const longest = Math.floor(maximumWays ** (1 / depth));
  const run = new RegExp([...new Set(loops)].map((loop) => `(?:${loop}){${longest}}`).join('|'), 'v');
  return (text) => text.length >= longest && run.test(text);
}

interface Surroundings {
  readonly ignoresCase: boolean;
  /** False if nothing after the part can fail, so that its first match is final. */
  readonly canFail: boolean;
}

function alternatives(nodes: readonly AlternativeNode[], around: Surroundings): Cost {
  return nodes.map((node) => sequence(node.body, around)).reduce(either, { ...free, ways: 0 });
}

function sequence(elements: readonly AlternativeElementNode[], around: Surroundings): Cost {
  let total = free;
  let { canFail } = around;
  for (const element of elements.toReversed()) {
    total = both(total, estimateCost(element, { ...around, canFail }));
    canFail ||= !(element.type === 'Quantifier' && element.min === 0);
  }
  return total;
}

const either = (a: Cost, b: Cost): Cost => ({
  ways: a.ways + b.ways,
  depth: Math.max(a.depth, b.depth),
  loops: [...a.loops, ...b.loops],
});

const both = (a: Cost, b: Cost): Cost => ({
  ways: a.ways * b.ways,
  depth: a.depth + b.depth,
  loops: [...a.loops, ...b.loops],
});

function estimateCost(node: AlternativeElementNode, around: Surroundings): Cost {
  switch (node.type) {
    case 'Character':
    case 'CharacterClass':
    case 'Assertion':
      return free;
    case 'CharacterSet':
      return isOneCharacter(node) ? free : unbounded;
    case 'Directive':
      return node.kind === 'flags' ? free : unbounded;
    case 'Group': {
      const ignoresCase = around.ignoresCase || node.flags?.enable?.ignoreCase === true;
      return alternatives(node.body, { ...around, ignoresCase });
    }
    case 'CapturingGroup':
      return alternatives(node.body, around);
    case 'LookaroundAssertion':
      // the first match is final, but each start of a search runs the look-around again
      return alternatives(node.body, { ...around, canFail: true });
    case 'Quantifier':
      return quantified(node, around);
    default:
      // Backreferences, subroutines and other constructs are not analysed.
      return unbounded;
  }
}

function quantified(node: QuantifierNode, around: Surroundings): Cost {
  const { body, min, max } = node;
  const isEndless = !Number.isFinite(max);
  if (isOneCharacter(body)) {
    // A possessive loop does not backtrack, but each start of a search runs to the loop's end.
    const staysShort = node.kind === 'possessive' && !isEndless;
    if (staysShort || max === min || !around.canFail) return free;
    return isEndless
      ? { ways: 1, depth: 1, loops: [describeCharacters(body, around)] }
      : { ways: max - min + 1, depth: 0, loops: [] };
  }
  // a loop ends where its body fails; there is no backtracking if the part after it cannot fail
  if (!around.canFail && min <= 1) return estimateCost(body, around);
  const cost = estimateCost(body, { ...around, canFail: around.canFail || max > 1 });
  if (isEndless) {
    const isPlain = cost.ways === 1 && cost.depth === 0 && hasOneLength(body);
    return isPlain ? { ways: 1, depth: 1, loops: [anyCharacter] } : unbounded;
  }
  if (cost.depth > 0 && max > 1) return unbounded;
  return { ...cost, ways: cost.ways ** max * (max - min + 1) };
}

function isOneCharacter(node: QuantifierNode['body']): boolean {
  if (node.type === 'Character' || node.type === 'CharacterClass') return true;
  return node.type === 'CharacterSet' && node.kind !== 'text_segment' && node.kind !== 'newline';
}

/** Returns whether a part matches one or more characters of a fixed number, without a choice. */
function hasOneLength(node: QuantifierNode['body']): boolean {
  if (isOneCharacter(node)) return true;
  if (node.type !== 'Group' && node.type !== 'CapturingGroup') return false;
  const [only, ...others] = node.body;
  if (only === undefined || others.length > 0 || only.body.length === 0) return false;
  return only.body.every(
    (element) => element.type === 'Character' || element.type === 'CharacterClass' || isDigitLike(element),
  );
}

function isDigitLike(element: AlternativeElementNode): boolean {
  if (element.type === 'CharacterSet') return isOneCharacter(element);
  return element.type === 'Quantifier' && element.min === element.max && isOneCharacter(element.body);
}

/** Returns an expression for the characters that a loop matches; for any character if flags decide it. */
function describeCharacters(node: QuantifierNode['body'], { ignoresCase }: Surroundings): string {
  if (ignoresCase || (node.type === 'CharacterSet' && (node.kind === 'dot' || node.kind === 'any')))
    return anyCharacter;
  const ast = {
    type: 'Regex',
    body: [{ type: 'Alternative', body: [node] }],
    flags: { type: 'Flags' },
  } as unknown as OnigurumaAst;
  const { pattern, options } = toRegExpDetails(generate(ast).pattern, { target: 'ES2024' });
  return options?.strategy === undefined ? pattern : anyCharacter;
}
