// The files that the package ships, in the order of SHIPPED_PLATFORMS in src/platform/addon/location.ts.
//
// One file for Linux serves GNU's C library and musl. It is compiled with the headers of musl, whose
// names have no versions, and whose structures are the kernel's, as GNU's are on these processors.

/** `os` and `arch` are gyp's words for a platform, `triple` is the compiler's. */
export const TARGETS = [
  { platform: 'linux-x64', os: 'linux', arch: 'x64', triple: 'x86_64-linux-musl' },
  { platform: 'linux-arm64', os: 'linux', arch: 'arm64', triple: 'aarch64-linux-musl' },
  { platform: 'darwin-x64', os: 'mac', arch: 'x64', triple: 'x86_64-macos.11.0' },
  { platform: 'darwin-arm64', os: 'mac', arch: 'arm64', triple: 'aarch64-macos.11.0' },
  { platform: 'win32-x64', os: 'win', arch: 'x64', triple: 'x86_64-windows-gnu' },
  { platform: 'win32-arm64', os: 'win', arch: 'arm64', triple: 'aarch64-windows-gnu' },
];
