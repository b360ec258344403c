/** The kinds of fenced blocks in a guide, as described in `docs/guides/README.md`. */

const usages = {
  sh: '```sh runs; add status=N for a command that must fail, or not-run="reason"',
  text: '```text directly after a ```sh block is its output; elsewhere add not-run="reason"',
  other: 'add file=NAME to write the block to a file, or not-run="reason"',
};

/**
 * The error for a guide that cannot be run, or whose output differs from the guide. `line` is the line of the
 * block.
 */
export class GuideError extends Error {
  constructor({ path, line, message }) {
    super(`${path}:${line}: ${message}`);
    this.name = 'GuideError';
  }
}

/**
 * Returns the fenced blocks in a Markdown text, each with its info string, its content, and the line of its
 * opening fence.
 */
function fencedBlocks({ path, text }) {
  const blocks = [];
  let open;
  for (const [index, content] of text.split('\n').entries()) {
    const line = index + 1;
    if (open === undefined) {
      const [, indent, fence, info] = /^(\s*)(`{3,}|~{3,})(.*)$/.exec(content) ?? [];
      if (fence === undefined) continue;
      if (indent !== '' || fence !== '```') {
        throw new GuideError({ path, line, message: 'a block begins with ``` in the first column' });
      }
      open = { info: info.trim(), lines: [], line };
    } else if (content === '```') {
      blocks.push({ info: open.info, line: open.line, text: open.lines.map((each) => `${each}\n`).join('') });
      open = undefined;
    } else open.lines.push(content);
  }
  if (open !== undefined) throw new GuideError({ path, line: open.line, message: 'the block has no end' });
  return blocks;
}

/** Returns the language and the marks of an info string, such as `js file=own.mjs`. */
function readInfo({ path, line, info }) {
  const [, language, rest] = /^(\S*)(.*)$/.exec(info);
  const marks = {};
  const pattern = /\s+(file|status|not-run)=(?:"([^"]+)"|([^"\s]\S*))/y;
  while (pattern.lastIndex < rest.length) {
    const start = pattern.lastIndex;
    const found = pattern.exec(rest);
    if (found === null) {
      const message = `cannot read "${rest.slice(start).trim()}" after \`\`\`${language}; expected file=, status= or not-run="reason"`;
      throw new GuideError({ path, line, message });
    }
    marks[found[1]] = found[2] ?? found[3];
  }
  return { language, marks };
}

/**
 * Returns the steps of a guide in order, each with its `line`: `{ kind: 'file', name, text }`,
 * `{ kind: 'command', command, status, output }` (`output` is undefined if the guide shows none), or
 * `{ kind: 'not-run', reason }`.
 * @throws GuideError for a block that cannot be run and has no mark with a reason
 */
export function parseGuide({ path, text }) {
  const steps = [];
  for (const block of fencedBlocks({ path, text })) {
    const { line } = block;
    const { language, marks } = readInfo({ path, ...block });
    const previous = steps.at(-1);
    const refuse = (usage) => {
      throw new GuideError({ path, line, message: `a block that is neither run nor marked: ${usage}` });
    };
    if (marks['not-run'] !== undefined) steps.push({ kind: 'not-run', reason: marks['not-run'], line });
    else if (marks.file !== undefined) {
      if (/^\/|(^|\/)\.\.(\/|$)/.test(marks.file)) refuse('file= names a file in the folder of the guide');
      steps.push({ kind: 'file', name: marks.file, text: block.text, line });
    } else if (language === 'sh') {
      const status = Number(marks.status ?? 0);
      if (!Number.isInteger(status)) refuse(usages.sh);
      steps.push({ kind: 'command', command: block.text, status, output: undefined, line });
    } else if (language === 'text') {
      if (previous?.kind !== 'command' || previous.output !== undefined) refuse(usages.text);
      previous.output = { text: block.text, line };
    } else refuse(usages.other);
  }
  return steps;
}
