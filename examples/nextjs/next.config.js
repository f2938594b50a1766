/** The package stays in node_modules, with its addon. Turbopack would copy that as well, webpack would not. */
export default { serverExternalPackages: ['safetensors-mmap'] };
