import { existsSync, readFileSync } from 'node:fs';

const isRun = (status) => status === 'passed' || status === 'failed';

/**
 * Returns the full names of the tests that were not run, according to a vitest report (reporter json). The
 * list is empty without a report.
 */
export function skippedTests(report) {
  if (report === undefined || !existsSync(report)) return [];
  const { testResults } = JSON.parse(readFileSync(report, 'utf8'));
  const tests = testResults.flatMap(({ assertionResults }) => assertionResults);
  return tests.filter(({ status }) => !isRun(status)).map(({ fullName }) => fullName);
}
