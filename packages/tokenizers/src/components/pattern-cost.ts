import { toOnigurumaAst } from 'oniguruma-parser';
import { generate } from 'oniguruma-parser/generator';
import type {
  AlternativeElementNode,
  AlternativeNode,
  OnigurumaAst,
  QuantifierNode,
} from 'oniguruma-parser/parser';
import { toRegExpDetails } from 'oniguruma-to-es';

/** The maximum number of different matches that a pattern may have at a position in a text. */
const maximumWays = 1000;
const anyCharacter = '[^]';

/** The cost of backtracking into a sub-pattern if the pattern after it fails. */
interface Cost {
  /**
   * The number of ways in which the sub-pattern can match at a position, not counting repetitions of loops.
   */
  readonly ways: number;
  /**
   * How many loops compete for the same characters. Each loop multiplies the number of ways by the length of
   * a run of such characters.
   */
  readonly depth: number;
  /** Character expressions in JavaScript syntax (flag `v`) for the characters that the loops match. */
  readonly loops: readonly string[];
}

const free: Cost = { ways: 1, depth: 0, loops: [] };
const unbounded: Cost = { ways: Number.POSITIVE_INFINITY, depth: 0, loops: [] };

/**
 * Returns a predicate: true if a search for all matches in the given text could backtrack much. The predicate
 * is always true if loops are nested or the pattern is too complex to analyse. Otherwise, it is true for a
 * text with a long run of characters that a loop matches, if the pattern after the loop can fail. For the
 * patterns of published tokenizers, this means hundreds of consecutive spaces or letters.
 *
 * @param source a valid expression in Oniguruma's syntax
 */
export function mayBacktrack(source: string): (text: string) => boolean {
  // here, only flags that apply to the rest of the pattern are searched for; the flags of a group are handled
  // at the group
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
  /** True if anything after the sub-pattern can fail. If false, the sub-pattern never backtracks. */
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
      // the look-around itself does not backtrack, but each start of a search runs it again
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
    // a possessive loop does not backtrack, but each start of a search runs it to its end
    const staysShort = node.kind === 'possessive' && !isEndless;
    if (staysShort || max === min || !around.canFail) return free;
    return isEndless
      ? { ways: 1, depth: 1, loops: [describeCharacters(body, around)] }
      : { ways: max - min + 1, depth: 0, loops: [] };
  }
  // a loop ends where its body fails; if nothing after the loop can fail, the loop does not backtrack
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

/** Returns true if the sub-pattern matches a fixed number of characters, without alternatives. */
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

/**
 * Returns an expression for the characters that a loop matches. If flags change these characters, the
 * expression matches any character.
 */
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
