/**
 * Makes the API reference's page "Error codes" from the places in the sources that make errors. The page
 * lists every code with its class and its messages, by package.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { parseSource } from '../checks/parse-source.mjs';

const codePattern = /^MTL_[A-Z0-9_]+$/;
/** Matches calls in native sources that make an error from a code and a format. */
const nativeError =
  /\b(?:error_status|fail)\(\s*(?:\w+\.get\(\),\s*)?"(MTL_[A-Z0-9_]+)",\s*(?:-?\w+,\s*)?((?:"[^"]*"\s*)*)/g;

/**
 * Returns the message in a node of the source. Each value in the message is written as its name, or as dots
 * if it is an expression.
 */
function readMessage(node) {
  if (node === undefined) return undefined;
  if (ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node)) return node.text;
  if (!ts.isTemplateExpression(node)) return undefined;
  const values = node.templateSpans.map(({ expression, literal }) => {
    const name = ts.isPropertyAccessExpression(expression) ? expression.name : expression;
    return `${ts.isIdentifier(name) ? `<${name.text}>` : '...'}${literal.text}`;
  });
  return node.head.text + values.join('');
}

/**
 * Returns the error code in a literal if the source makes an error from the literal or prints it. This is the
 * case if the literal is a field, a constant, a default, a branch of a condition, or an argument of `fail`.
 * Literals in comparisons and names of environment variables are not error codes. Their parent nodes have
 * different kinds.
 */
function handedCode(node) {
  if (ts.isTemplateHead(node)) return /^error\[(MTL_[A-Z0-9_]+)\]/.exec(node.text)?.[1];
  if (!ts.isStringLiteral(node) || !codePattern.test(node.text)) return undefined;
  const { parent } = node;
  const isHanded =
    (ts.isPropertyAssignment(parent) && parent.initializer === node) ||
    (ts.isCallExpression(parent) && /\bfail$/.test(parent.expression.getText())) ||
    ts.isConditionalExpression(parent) ||
    ts.isBindingElement(parent) ||
    ts.isVariableDeclaration(parent) ||
    ts.isParameter(parent);
  return isHanded ? node.text : undefined;
}

/** Returns the name of the class whose constructor the given `super(...)` call runs. */
function findBaseClass(node) {
  const owner = ts.findAncestor(node, ts.isClassDeclaration);
  return owner?.heritageClauses?.[0]?.types[0]?.expression.getText();
}

function errorsOfSource(path) {
  const text = readFileSync(path, 'utf8');
  // half of the sources contain no code, and skipping them saves most of the parsing time
  if (!text.includes('MTL_')) return [];
  const source = parseSource(path, text);
  const errors = [];
  const visit = (node) => {
    const isSuper = ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.SuperKeyword;
    if (ts.isNewExpression(node) || isSuper) {
      const [code, message] = node.arguments ?? [];
      if (code !== undefined && ts.isStringLiteral(code) && codePattern.test(code.text)) {
        const className = (isSuper ? findBaseClass(node) : node.expression.getText()) ?? '';
        if (/Error$/.test(className))
          errors.push({ code: code.text, className, message: readMessage(message) });
      }
    }
    const handed = handedCode(node);
    if (handed !== undefined) errors.push({ code: handed, className: '', message: undefined });
    ts.forEachChild(node, visit);
  };
  visit(source);
  return errors;
}

function errorsOfNative(path) {
  const className = path.includes('/comm/') ? 'CommunicationError' : 'KernelError';
  const text = readFileSync(path, 'utf8');
  const made = [...text.matchAll(nativeError)].map(([, code, message]) => ({
    code,
    className,
    // adjacent literals become one string, and the format's placeholders become dots
    message: message.replaceAll(/"\s*"?/g, '').replaceAll(/%[-.\d]*(?:ll|z)?[a-z]/g, '...'),
  }));
  const handed = [...text.matchAll(/\bcode = "(MTL_[A-Z0-9_]+)"/g)].map(([, code]) => ({ code, className }));
  return [...made, ...handed];
}

/** Returns the files in `folder` whose paths match `pattern`, except tests. */
function filesIn(folder, pattern) {
  if (!existsSync(folder)) return [];
  const paths = readdirSync(folder, { recursive: true }).sort();
  const chosen = paths.filter((path) => pattern.test(path) && !/(?:^|\/)test(?:s|ing)\//.test(path));
  return chosen.map((path) => join(folder, path));
}

function groupBy(items, findKey) {
  const groups = new Map();
  for (const item of items) groups.set(findKey(item), [...(groups.get(findKey(item)) ?? []), item]);
  return groups;
}

/** Returns the messages of all errors that a repository's packages make, by package, code and class. */
export function errorCodes(repository) {
  const packages = readdirSync(join(repository, 'packages')).sort();
  return packages.flatMap((folder) => {
    const directory = join(repository, 'packages', folder);
    const errors = [
      ...filesIn(join(directory, 'src'), /(?<!\.test)\.ts$/).flatMap(errorsOfSource),
      ...filesIn(join(directory, 'native'), /\.(?:cc|h|cu|cuh)$/).flatMap(errorsOfNative),
    ];
    const made = new Set(errors.filter(({ className }) => className !== '').map(({ code }) => code));
    const known = errors.filter(({ code, className }) => className !== '' || !made.has(code));
    const grouped = groupBy(known, ({ code, className }) => `${code} ${className}`);
    return [...grouped.keys()].sort().map((key) => {
      const [code, className] = key.split(' ');
      const messages = grouped.get(key).map(({ message }) => message);
      return {
        package: `@mtl/${folder}`,
        code,
        className,
        messages: [...new Set(messages.filter((each) => /\w/.test(each ?? '')))],
      };
    });
  });
}

/** Returns the page in Markdown. */
export function errorCodesPage(errors) {
  const lines = [
    '---',
    'title: Error codes',
    '---',
    '',
    'The errors that the packages make, by code. Codes do not change: programs match on them, users read the text.',
    'Names in angle brackets are values of a message. A code without a message has one that depends on more.',
  ];
  for (const [name, all] of groupBy(errors, (error) => error.package)) {
    lines.push('', `## ${name}`, '');
    for (const { code, className, messages } of all) {
      lines.push(className === '' ? `- \`${code}\`` : `- \`${code}\` (\`${className}\`)`);
      lines.push(
        ...messages.map(
          (message) => `  - \`${message.replaceAll('`', "'").replaceAll(/\s+/g, ' ').trim()}\``,
        ),
      );
    }
  }
  return `${lines.join('\n')}\n`;
}
