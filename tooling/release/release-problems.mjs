/**
 * Returns the problems with the versions of packages that are released together. If `tag` is given, the
 * versions are compared with this tag.
 */
export function versionProblems({ versions, tag }) {
  const distinct = [...new Set(versions)];
  if (distinct.length !== 1) return [`packages have several versions: ${distinct.join(', ')}`];
  const expected = `v${distinct[0]}`;
  return tag === undefined || tag === expected
    ? []
    : [`the tag is ${tag}, the changesets make ${expected}: tag that`];
}

/** Returns the tag of npm for a version: a prerelease has its own tag, such as `alpha`. */
export function chooseDistTag(version) {
  return /-([a-z]+)/.exec(version)?.[1] ?? 'latest';
}

/**
 * Returns problems because of which npm would refuse one of the packages with these manifests. They are
 * checked first, because npm could otherwise refuse a package after others have been published. `changes`:
 * uncommitted changes.
 */
export function releaseProblems({ manifests, isDry, changes }) {
  const problems = changes === '' ? [] : [`the checkout has changes, commit them:\n${changes}`];
  for (const { name, repository, publishConfig = {} } of manifests) {
    if (publishConfig.access !== 'public')
      problems.push(`${name}: "publishConfig" has no "access": "public"`);
    if (publishConfig.provenance !== true)
      problems.push(`${name}: "publishConfig" has no "provenance": true`);
    // for provenance, npm requires that the package names the repository of the workflow that publishes the
    // package
    if (!isDry && repository === undefined)
      problems.push(`${name}: "repository" is missing, which provenance needs`);
  }
  return problems;
}
