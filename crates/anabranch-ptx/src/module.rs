//! A parsed module: what it contains, and what of it can be executed.

mod declarations;
mod initial;
mod reach;

use std::collections::{BTreeSet, HashMap};

use crate::lower::{Code, Item, Items, Refusal, Signature, Value, lower};
use crate::parse::parse;
use crate::position::{ParseError, Parsed};
use crate::syntax::{Function as Written, Initial, Linkage, Variable as Declaration};
use crate::types::{Scalar, Space};
use reach::Groups;

/// How many refusals a kernel has of other functions, at most.
const MOST_REFUSALS: usize = 16;

/// A parameter of a kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Parameter {
    /// Its name in the text.
    pub name: String,
    /// The type of its elements.
    pub scalar: Scalar,
    /// Where it begins in the parameter buffer, in bytes.
    pub offset: u32,
    /// Its size in bytes.
    pub bytes: u32,
    /// Its alignment in bytes.
    pub alignment: u32,
    /// `.ptr`: the space that it points to, if one is named, and the alignment of what it points to.
    pub pointer: Option<(Option<Space>, Option<u32>)>,
}

/// A variable of a module.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Global, constant or shared memory.
    pub space: Space,
    /// How other modules see it.
    pub linkage: Linkage,
    /// The type of its elements.
    pub scalar: Scalar,
    /// Its size in bytes. Dynamic shared memory has none.
    pub bytes: u64,
    /// Its alignment in bytes.
    pub alignment: u32,
    pub(crate) owner: Option<u32>,
    /// Of shared variables: where they begin.
    pub(crate) shared_offset: u32,
    pub(crate) initial: Vec<u8>,
    /// Addresses in the initial contents: where, how many bytes, what, and the bits of it.
    pub(crate) addresses: Vec<(u64, u32, Value, bool, u64)>,
}

/// A function of a module.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The line where it begins.
    pub line: u32,
    /// Whether it can be launched.
    pub kernel: bool,
    /// How other modules see it.
    pub linkage: Linkage,
    /// Its parameters, of kernels only.
    pub parameters: Vec<Parameter>,
    /// The bytes of all parameters, of kernels.
    pub parameter_bytes: u32,
    /// How many registers of each type it declares.
    pub registers: Vec<(Scalar, u64)>,
    /// The bytes of its local variables, for each thread.
    pub local_bytes: u32,
    /// The bytes of static shared memory that it and what it calls use.
    pub shared_bytes: u32,
    /// Directives such as `.maxntid`, with their numbers. The last one counts where one is repeated.
    pub directives: Vec<(String, Vec<u64>)>,
    /// Why it cannot be executed: what is not supported in it. A kernel also has the first of those of the functions that it
    /// reaches.
    pub refusals: Vec<Refusal>,
    /// Whether it has a body here.
    pub defined: bool,
    /// Whether this module calls it or takes its address.
    pub used: bool,
    pub(crate) code: Code,
}

impl Function {
    /// `.maxntid` or `.reqntid`: the most threads of a block.
    pub fn most_threads(&self) -> Option<u64> {
        let found = self.directives.iter().rfind(|(name, _)| name == "maxntid" || name == "reqntid");
        found.map(|(_, numbers)| numbers.iter().fold(1u64, |product, number| product.saturating_mul(*number)))
    }

    /// `.reqntid`: the size that blocks must have.
    pub fn required_block(&self) -> Option<[u64; 3]> {
        self.extents("reqntid")
    }

    /// `.reqnctapercluster`: the size that clusters must have.
    pub fn required_cluster(&self) -> Option<[u32; 3]> {
        // Its numbers are those of 32 bits, as was checked.
        Some(self.extents("reqnctapercluster")?.map(|extent| u32::try_from(extent).unwrap_or(u32::MAX)))
    }

    /// `.maxclusterrank`: the most blocks of a cluster.
    pub fn most_cluster_blocks(&self) -> Option<u64> {
        let (_, numbers) = self.directives.iter().rfind(|(name, _)| name == "maxclusterrank")?;
        numbers.first().copied()
    }

    /// `.explicitcluster`: launches must say the size of clusters, unless the kernel does.
    pub fn needs_cluster(&self) -> bool {
        self.directives.iter().any(|(name, _)| name == "explicitcluster") && self.required_cluster().is_none()
    }

    fn extents(&self, directive: &str) -> Option<[u64; 3]> {
        let (_, numbers) = self.directives.iter().rfind(|(name, _)| name == directive)?;
        Some(std::array::from_fn(|axis| numbers.get(axis).copied().unwrap_or(1)))
    }
}

/// A module of PTX.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Module {
    /// `.version`: major and minor.
    pub version: (u32, u32),
    /// `.target`: an architecture, and options.
    pub targets: Vec<String>,
    /// `.address_size`.
    pub address_size: u32,
    pub(crate) sources: HashMap<u64, String>,
    pub(crate) variables: Vec<Variable>,
    pub(crate) functions: Vec<Function>,
    /// The alignment of dynamic shared memory.
    pub(crate) dynamic_alignment: u32,
}

/// The most bytes that a variable may have.
pub const VARIABLE_LIMIT: u64 = 1 << 40;

/// The most bytes of shared variables that a kernel may have, as assemblers have it. Dynamic shared memory may be more.
pub const STATIC_SHARED_LIMIT: u32 = 48 << 10;

/// The most bytes that the variables of constant memory of a module may have together, as assemblers have it.
pub const CONSTANT_LIMIT: u64 = 64 << 10;

/// The most bytes that the initial contents of all variables may have together.
pub const INITIAL_LIMIT: u64 = 1 << 27;

impl Module {
    /// Parses a text.
    ///
    /// A module with instructions that cannot be executed is parsed too: [`Function::refusals`] lists them.
    ///
    /// # Errors
    ///
    /// A text that is no PTX, or that exceeds a limit of this crate.
    pub fn parse(text: &str) -> Result<Module, ParseError> {
        let file = parse(text)?;
        let mut items = Items::default();
        let mut variables = Vec::new();
        let declared = declarations::variables(&file)?;
        for declaration in &declared {
            declare_variable(&mut items, &mut variables, declaration)?;
        }
        check_constants(&items, &declared)?;
        let written = declarations::functions(&mut items, &file)?;
        items.signatures = written.iter().map(|function| Signature::of(function).into()).collect();
        let mut left = INITIAL_LIMIT;
        for (variable, declaration) in variables.iter_mut().zip(&declared) {
            initial::fill(&items, variable, declaration, &mut left)?;
        }
        let mut functions = Vec::new();
        for (index, function) in written.iter().enumerate() {
            items.current = index as u32;
            let code = lower(&mut items, function)?;
            functions.push(finish(function, code)?);
        }
        for own in &items.variables[variables.len()..] {
            variables.push(Variable {
                name: own.name.to_owned(),
                space: own.space,
                linkage: Linkage::Internal,
                scalar: Scalar::B8,
                bytes: own.bytes,
                alignment: own.alignment,
                owner: own.owner,
                shared_offset: 0,
                initial: Vec::new(),
                addresses: Vec::new(),
            });
        }
        let mut module = Module {
            version: file.version,
            targets: file.targets.iter().map(|&target| target.to_owned()).collect(),
            address_size: file.address_size,
            sources: file.sources.iter().map(|(number, name)| (*number, (*name).to_owned())).collect(),
            variables,
            functions,
            dynamic_alignment: 16,
        };
        module.lay_out_shared();
        let named = module.named();
        let groups = Groups::new(&named);
        module.measure_shared(&named, &groups);
        module.spread_refusals(&named, &groups);
        module.find_used(&named);
        Ok(module)
    }

    /// The kernels and functions.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// The kernels.
    pub fn kernels(&self) -> impl Iterator<Item = &Function> {
        self.functions.iter().filter(|function| function.kernel && function.defined)
    }

    /// A kernel by its name.
    pub fn kernel(&self, name: &str) -> Option<&Function> {
        self.kernels().find(|kernel| kernel.name == name)
    }

    /// The variables, of global, constant and shared memory.
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    /// The functions that each function calls or takes the address of.
    fn named(&self) -> Vec<Vec<u32>> {
        let function = |value: &Value| match value {
            Value::Function(number) => Some(*number),
            _ => None,
        };
        self.functions.iter().map(|one| one.code.uses.iter().filter_map(function).collect()).collect()
    }

    /// Notes which functions are used, by functions and by initial values.
    fn find_used(&mut self, named: &[Vec<u32>]) {
        let by_values = self.variables.iter().flat_map(|variable| &variable.addresses).filter_map(|one| match one.2 {
            Value::Function(number) => Some(number),
            _ => None,
        });
        for number in named.iter().flatten().copied().chain(by_values) {
            self.functions[number as usize].used = true;
        }
    }

    /// Gives shared variables their places: those of the module and of functions first, then those of each kernel.
    fn lay_out_shared(&mut self) {
        let mut common = 0u64;
        let mut of_kernel: HashMap<u32, u64> = HashMap::new();
        let place = |start: &mut u64, variable: &mut Variable| {
            *start = start.checked_next_multiple_of(variable.alignment.into()).unwrap_or(u64::MAX);
            variable.shared_offset = u32::try_from(*start).unwrap_or(u32::MAX);
            *start = start.saturating_add(variable.bytes);
        };
        let is_kernel: Vec<bool> = self.functions.iter().map(|function| function.kernel).collect();
        for variable in self.variables.iter_mut().filter(|variable| variable.space == Space::Shared) {
            if variable.bytes == 0 {
                self.dynamic_alignment = self.dynamic_alignment.max(variable.alignment);
            } else if variable.owner.is_none_or(|owner| !is_kernel[owner as usize]) {
                place(&mut common, variable);
            }
        }
        for variable in self.variables.iter_mut().filter(|variable| variable.space == Space::Shared) {
            if let Some(owner) = variable.owner.filter(|owner| is_kernel[*owner as usize]) {
                place(of_kernel.entry(owner).or_insert(common), variable);
            }
        }
    }

    /// How much shared memory each kernel has, with that of all functions that it reaches.
    fn measure_shared(&mut self, named: &[Vec<u32>], groups: &Groups) {
        let end = |value: &Value| {
            let Value::Variable(number, _) = value else { return 0 };
            let variable = &self.variables[*number as usize];
            let end = u64::from(variable.shared_offset).saturating_add(variable.bytes);
            if variable.space == Space::Shared { end } else { 0 }
        };
        let own = |function: u32| self.functions[function as usize].code.uses.iter().map(end).max().unwrap_or(0);
        let bytes = groups.combine(named, own, |all, more| *all = (*all).max(*more));
        for (index, function) in self.functions.iter_mut().enumerate().filter(|(_, function)| function.kernel) {
            function.shared_bytes = u32::try_from(*bytes.of(index as u32)).unwrap_or(u32::MAX);
            if function.shared_bytes > STATIC_SHARED_LIMIT {
                let bytes = function.shared_bytes;
                let what = format!("{bytes} bytes of shared variables: a block has at most {STATIC_SHARED_LIMIT}");
                function.code.refusals.push(Refusal { line: function.line, what });
            }
        }
    }

    /// A kernel that reaches a function that cannot be executed cannot be executed either.
    fn spread_refusals(&mut self, named: &[Vec<u32>], groups: &Groups) {
        // By function and number. A text that is hostile may have many kernels, which all have those of one function.
        type Some = BTreeSet<(u32, u32)>;
        let own = |function: u32| {
            let count = self.functions[function as usize].code.refusals.len().min(MOST_REFUSALS);
            (0..count as u32).map(|number| (function, number)).collect::<Some>()
        };
        let first = groups.combine(named, own, |all: &mut Some, more| {
            all.extend(more);
            while all.len() > MOST_REFUSALS {
                all.pop_last();
            }
        });
        for index in 0..self.functions.len() as u32 {
            let mut refusals = self.functions[index as usize].code.refusals.clone();
            if self.functions[index as usize].kernel {
                let others = first.of(index).iter().filter(|(function, _)| *function != index);
                refusals.extend(others.map(|&(function, number)| {
                    self.functions[function as usize].code.refusals[number as usize].clone()
                }));
            }
            self.functions[index as usize].refusals = refusals;
        }
    }
}

fn declare_variable<'a>(
    items: &mut Items<'a>,
    variables: &mut Vec<Variable>,
    declaration: &Declaration<'a>,
) -> Parsed<()> {
    let error = |message: &str| Err(ParseError::new(declaration.at, message));
    let Some((mut bytes, alignment)) = crate::lower::layout(declaration) else {
        return error("a variable of more than 64 bits of bytes");
    };
    // `x[] = {1, 2}` has the size of what it contains; vectors and further dimensions are lists of their own.
    if let (Some(0), Some(Initial::List(list))) = (declaration.dimensions.first(), &declaration.initial) {
        match crate::lower::size_of_open_array(declaration, list) {
            Some(found) => bytes = found,
            None => return error("a variable of more than 64 bits of bytes"),
        }
    }
    if bytes > VARIABLE_LIMIT {
        return error("a variable of more than 2^40 bytes");
    }
    if matches!(declaration.space, Space::Register | Space::Parameter) {
        return error("a register or a parameter outside of functions");
    }
    if declaration.space == Space::Local {
        return error("a variable of `.local` outside of functions");
    }
    if bytes == 0 && declaration.linkage != Linkage::Extern {
        return error("a variable that has no size and is not `.extern`");
    }
    if declaration.linkage == Linkage::Common && declaration.space != Space::Global {
        return error("a variable that is `.common` and not `.global`");
    }
    if declaration.initial.is_some() && declaration.linkage == Linkage::Extern {
        return error("an initial value of a variable that is `.extern`");
    }
    if declaration.initial.is_some() && !matches!(declaration.space, Space::Global | Space::Constant) {
        return error("an initial value of a variable that is neither `.global` nor `.const`");
    }
    let number = variables.len() as u32;
    items.by_name.insert(declaration.name, Item::Variable(number));
    items.variables.push(crate::lower::Declared {
        name: declaration.name,
        space: declaration.space,
        bytes,
        alignment,
        element: crate::lower::element(declaration),
        dynamic: declaration.space == Space::Shared && bytes == 0,
        owner: None,
    });
    variables.push(Variable {
        name: declaration.name.to_owned(),
        space: declaration.space,
        linkage: declaration.linkage,
        scalar: declaration.scalar,
        bytes,
        alignment,
        owner: None,
        shared_offset: 0,
        initial: Vec::new(),
        addresses: Vec::new(),
    });
    Ok(())
}

/// Checks that the variables of constant memory are not too large together.
fn check_constants(items: &Items<'_>, declared: &[&Declaration<'_>]) -> Parsed<()> {
    let mut end = 0u64;
    for (variable, declaration) in items.variables.iter().zip(declared) {
        if variable.space != Space::Constant {
            continue;
        }
        let start = end.checked_next_multiple_of(variable.alignment.into()).unwrap_or(u64::MAX);
        end = start.saturating_add(variable.bytes);
        if end > CONSTANT_LIMIT {
            let message = format!("more than {CONSTANT_LIMIT} bytes of constant memory");
            return Err(ParseError::new(declaration.at, message));
        }
    }
    Ok(())
}

/// What is public of a function.
fn finish(function: &Written<'_>, mut code: Code) -> Parsed<Function> {
    if function.directives.iter().any(|(name, _)| *name == "blocksareclusters") {
        let what = ".blocksareclusters: grids that are counted in clusters".to_owned();
        code.refusals.push(Refusal { line: function.at.line, what });
    }
    let mut parameters = Vec::new();
    let mut parameter_bytes = 0;
    if function.kernel {
        for (declaration, place) in function.parameters.iter().zip(&code.formals) {
            let Some((bytes, alignment)) = crate::lower::layout(declaration) else {
                return Err(ParseError::new(declaration.at, "a parameter of more than 64 bits of bytes"));
            };
            // Hardware takes 32764 bytes of parameters at most.
            if u64::from(place.offset).saturating_add(bytes) > 1 << 16 {
                return Err(ParseError::new(declaration.at, "parameters of more than 65536 bytes"));
            }
            parameter_bytes = place.offset + place.bytes;
            parameters.push(Parameter {
                name: declaration.name.to_owned(),
                scalar: declaration.scalar,
                offset: place.offset,
                bytes: place.bytes,
                alignment,
                pointer: declaration.pointer,
            });
        }
    }
    Ok(Function {
        name: function.name.to_owned(),
        line: function.at.line,
        kernel: function.kernel,
        linkage: function.linkage,
        parameters,
        parameter_bytes,
        registers: code.registers.clone(),
        local_bytes: code.local_bytes,
        shared_bytes: 0,
        directives: function.directives.iter().map(|(name, numbers)| ((*name).to_owned(), numbers.clone())).collect(),
        refusals: Vec::new(),
        defined: function.body.is_some(),
        used: false,
        code,
    })
}
